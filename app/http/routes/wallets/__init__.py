"""The routes of wallet assessments and the bodies of their requests."""
