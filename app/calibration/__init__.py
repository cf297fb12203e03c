"""Measures how well face comparison distinguishes an operator's own people; no service is needed."""
