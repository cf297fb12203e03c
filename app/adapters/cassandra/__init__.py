"""Stores over Apache Cassandra, with large evidence in a shared folder."""
