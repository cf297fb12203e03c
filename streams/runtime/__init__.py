"""The infrastructure of agents: Kafka clients, consumer, guard, tables and replies, without domain rules."""
