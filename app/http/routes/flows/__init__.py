"""The routes of verification flows and the bodies of their requests."""
