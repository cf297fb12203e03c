"""Verification sessions: a subject's run under a published revision, from consent to outcome."""
