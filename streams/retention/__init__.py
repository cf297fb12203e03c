"""Removes evidence whose retention period is over, and redacts the verifications that refer to it."""
