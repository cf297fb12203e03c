"""Invariants of every deployment, checked on plain values."""
