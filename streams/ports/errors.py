"""The errors of the ports."""

from schemas.problems import VeristreamError


class Erased(VeristreamError):
    """The subject's data key was destroyed; what it sealed is gone for good."""


class KeyUnavailable(VeristreamError):
    """The process does not have the key needed; the message names its purpose."""


class Damaged(VeristreamError):
    """The stored bytes were altered; they must not be used."""


class Conflict(VeristreamError):
    """The record was changed since it was read."""
