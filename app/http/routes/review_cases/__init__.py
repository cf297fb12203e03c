"""The routes of review cases and the bodies of their requests."""
