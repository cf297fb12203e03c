"""The demonstration: specimen documents, seeds and a webhook receiver."""
