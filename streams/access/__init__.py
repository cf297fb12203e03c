"""Tenants and their API keys: who is let in, and every change of that with its audit row."""
