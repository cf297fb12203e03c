"""The store of one node: SQLite for what is looked up, files for blobs; several processes may share it."""
