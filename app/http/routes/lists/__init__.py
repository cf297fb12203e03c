"""The routes of lists: a tenant's own, and the deployment's by its operator."""
