"""How each Kafka request is answered: one small function per API, no sockets and no files."""
