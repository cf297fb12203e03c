"""The embedded Kafka-protocol broker: one node, one directory, no domain knowledge.

No Python package serves the Kafka protocol, and `veristream up` must run without a JVM or a container. The
library kio parses requests and writes responses.
"""
