"""Velocity by other keys than the subject: accounts, counterparties, devices, addresses, wallets (G113)."""
