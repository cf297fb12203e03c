"""`veristream doctor --invariants`: looks through log and stores of a deployment for what should not be."""
