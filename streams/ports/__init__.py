"""Ports of stores, evidence and events, implemented in `app.adapters`."""
