"""Backups of a running deployment: taken, verified, and restored into an empty folder."""
