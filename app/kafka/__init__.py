"""The front's side of Kafka: the cluster, its diagnostics, and request and reply over the log."""
