"""Why a store does not let itself be opened, whatever the reason lies in; each message names the mend."""

from schemas.problems import VeristreamError


class SchemaRefused(VeristreamError):
    """The store was written by a newer version, is another program's, or was not brought up to this one."""


class StoreRefused(VeristreamError):
    """The store answers and will not do as configured: credentials, TLS, names, or another store's folder."""
