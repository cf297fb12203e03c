"""Measures how well face comparison tells an operator's own people apart; asks and changes no service."""
