"""Ports of this machine: the refusal of one that is taken."""

import os
import socket
from typing import Final

from app.process.startup import CannotStart
from app.settings import Settings

LOOPBACK: Final = "127.0.0.1"
"""Where the embedded broker and the health port listen."""


def refuse_taken_ports(settings: Settings, *, with_broker: bool) -> None:
    """Check that the other ports a role was given are free, before anything is made or loaded.

    Raises:
        CannotStart: One is taken.
    """
    if with_broker and settings.kafka_bootstrap is None and settings.broker_port:
        _require_free(settings.broker_port, "--broker-port")
    if settings.health_port:
        _require_free(settings.health_port, "--health-port")


def _require_free(port: int, option: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise taken(port, LOOPBACK, option, error) from error


def taken(port: int, host: str, option: str, error: OSError) -> CannotStart:
    """Return the error for a port that cannot be bound; it says how to fix it."""
    fix = f"stop what uses it, or choose another with {option} (0: a free one)"
    return CannotStart(f"port {port} of {host} cannot be had ({os.strerror(error.errno or 0)}); {fix}")
