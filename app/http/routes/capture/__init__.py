"""`/v1/capture`: what the subject's page may do with its client token."""
