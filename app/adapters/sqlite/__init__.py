"""Stores over SQLite on one node; several processes may share the file."""
