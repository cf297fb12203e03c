"""Sending webhooks over HTTP, to public addresses only."""
