"""Copies of a deployment that runs: taken at one moment, verified, and restored into an empty folder."""
