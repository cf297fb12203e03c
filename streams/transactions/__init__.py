"""Transactions: the decision while the payment waits, and the features it looks at (G39, G113)."""
