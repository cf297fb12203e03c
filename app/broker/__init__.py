"""The embedded Kafka-protocol broker: one node, one directory, no domain knowledge."""
