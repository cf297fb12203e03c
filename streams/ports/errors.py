"""The errors of the ports."""

from schemas.problems import VeristreamError


class Erased(VeristreamError):
    """The subject's data key was destroyed; what it sealed is gone for good."""


class KeyUnavailable(VeristreamError):
    """The process was not given the key that this needs; the words name what the key is for."""


class Damaged(VeristreamError):
    """What is kept is not what was put there; it must not be shown."""


class Conflict(VeristreamError):
    """The record was changed by somebody else since it was read."""
