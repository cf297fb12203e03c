"""The embedded Kafka-protocol broker: one node, one directory, and no word of the domain."""
