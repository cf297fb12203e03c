"""Wallets: the formats of addresses, and the risk of one from lists and the tenant's own ledger (G41)."""
