"""Tenants, their settings and their API keys."""
