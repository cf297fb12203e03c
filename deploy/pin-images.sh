#!/bin/sh
# Pins every foreign image of docker-compose.yml and the Dockerfile by the digest its registry tells now, which
# needs Docker with buildx and a way to the registry. Look at the difference, then commit it. Run it again after
# a version was changed; an image that has a digest keeps it.
set -eu
cd "$(dirname "$0")/.."
for image in $(sed -nE 's/^ *image: ([^ @]+)$/\1/p; s/^FROM ([^ @]+)( AS .*)?$/\1/p' docker-compose.yml Dockerfile | sort -u); do
    case $image in veristream:*) continue ;; esac
    digest=$(docker buildx imagetools inspect "$image" --format '{{.Manifest.Digest}}')
    case $digest in sha256:*) ;; *) echo "no digest of $image: $digest" >&2; exit 1 ;; esac
    for file in docker-compose.yml Dockerfile; do
        sed -E "s#^( *image: |FROM )$image( AS .*)?\$#\1$image@$digest\2#" "$file" > "$file.pinned"
        cat "$file.pinned" > "$file"
        rm "$file.pinned"
    done
    echo "$image@$digest"
done
