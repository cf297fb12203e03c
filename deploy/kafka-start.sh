#!/bin/bash
# Prepares the log once, with the one user there is, and becomes the broker.
set -euo pipefail
settings=/etc/veristream/kafka.properties
password=$(</run/secrets/kafka_password)
/opt/kafka/bin/kafka-storage.sh format --ignore-formatted --standalone --cluster-id "$CLUSTER_ID" \
    --config "$settings" --add-scram "SCRAM-SHA-512=[name=veristream,password=$password]"
unset password
exec /opt/kafka/bin/kafka-server-start.sh "$settings"
