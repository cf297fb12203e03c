"""Try a policy on stored transactions, and report how a shadow differs; nothing is decided here (G115)."""
