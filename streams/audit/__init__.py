"""The audit log's chain: rows are sealed in commit order, and anybody with the key can check them."""
