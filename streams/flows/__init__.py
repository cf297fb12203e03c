"""Verification flows: drafts that are edited, published as frozen revisions, and archived."""
