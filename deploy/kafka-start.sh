#!/bin/bash
# Prepares the log once, with one user for each role, and becomes the broker.
set -euo pipefail
settings=/etc/veristream/kafka.properties
users=()
for role in admin front worker sender downstream; do
    users+=(--add-scram "SCRAM-SHA-512=[name=$role,password=$(<"/run/secrets/kafka_${role}_password")]")
done
/opt/kafka/bin/kafka-storage.sh format --ignore-formatted --standalone --cluster-id "$CLUSTER_ID" \
    --config "$settings" "${users[@]}"
unset users
exec /opt/kafka/bin/kafka-server-start.sh "$settings"
