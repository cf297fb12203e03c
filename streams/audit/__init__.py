"""The audit log's hash chain: rows are sealed in commit order and verified with the key."""
