"""The members of a tenant: invitations, roles, changes, and the tokens that reset access."""
