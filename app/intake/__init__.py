"""Store images as evidence and submit verifications."""
