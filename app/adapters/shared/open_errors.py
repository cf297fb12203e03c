"""Errors that refuse to open a store; each message says how to fix it."""

from typing import Final

from schemas.problems import VeristreamError

UNREADABLE: Final = "of before the first release, which this version does not read: begin with an empty one"
"""Ends the refusal of a store whose tables were never released."""


class SchemaRefused(VeristreamError):
    """The store was written by a newer version, is another program's, or was not brought up to this one."""


class StoreRefused(VeristreamError):
    """The store answers and will not do as configured: credentials, TLS, names, or another store's folder."""
