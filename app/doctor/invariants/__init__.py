"""`veristream doctor --invariants`: checks the log and the stores against the invariants."""
