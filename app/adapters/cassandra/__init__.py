"""The store of many nodes: Apache Cassandra for what is looked up, a shared folder for large evidence."""
