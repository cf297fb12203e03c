"""Readers of recognised text, one for each document class; none of them uses pixels."""
