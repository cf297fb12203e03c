"""The routes of webhook endpoints and deliveries, and the bodies of their requests."""
