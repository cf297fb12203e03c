"""The routes of verification sessions and the bodies of their requests."""
