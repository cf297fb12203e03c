"""Implementations of the ports in `streams/ports`, one technology per package; no domain rules."""
