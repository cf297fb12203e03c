"""Errors of the broker: why it does not start, and refusals of its parts."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kio.schema.errors import (
        ErrorCode,  # not at run time: the settings read this file, kio takes a second
    )


class BrokerError(Exception):
    """The broker cannot do what it was asked; the message says how to fix it."""


class BrokerLocked(BrokerError):
    """Another process writes to this directory."""

    def __init__(self, directory: Path, owner: str) -> None:
        super().__init__(
            f"the broker directory {directory} is in use by process {owner or 'unknown'}; "
            "stop that process or choose another directory"
        )


class RemoteAddressRefused(BrokerError):
    """The broker has no TLS and was configured to listen on a remote address."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"the embedded broker speaks no TLS and refuses to listen on {host!r}; "
            "use 127.0.0.1, or set allow_remote when a firewall or a private network protects it"
        )


class Refused(Exception):
    """A request cannot be carried out; `code` is what the client receives."""

    def __init__(self, code: "ErrorCode", message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message or code.name


class UserNameTaken(BrokerError):
    """There is a user of this name."""


class UserUnknown(BrokerError):
    """There is no user of this name."""


class UsersUnusable(BrokerError):
    """The files cannot be read, or do not hold what they should."""


class SignInRefused(Exception):
    """The exchange was malformed or its proof is wrong; the client does not learn which."""
