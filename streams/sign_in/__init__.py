"""Signing in: passwords, second factor, sessions, and the limits of attempts."""
