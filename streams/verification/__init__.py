"""Evaluation of verifications: readers and rules are pure, the rest uses only ports."""
