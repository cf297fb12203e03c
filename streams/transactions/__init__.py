"""Transactions: a payment is decided while it waits, by the tenant's policy and the subject's history."""
