"""Handlers of Kafka requests: one function for each API, no sockets and no files."""
