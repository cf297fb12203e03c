"""Check the log and the stores against the invariants."""
