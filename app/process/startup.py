"""Run a role of the service: its ports, its start, the variables it ignores, and the signal that ends it."""

import asyncio
import ctypes
import difflib
import gc
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import structlog
import uvloop

from app.settings import PREFIX, Settings

READY_S: Final = 60.0
"""A start that takes longer has failed."""

START_COLLECT_AFTER: Final = 100_000
"""Allocations before the collector looks at the youngest objects, until a role is ready.

What imports make stays: looking through it again and again was a tenth of the processor time of a start.
"""

COLLECT_AFTER: Final = (20_000, 5, 5)
"""Allocations before the collector looks at the youngest objects, and how seldom at older ones.

Once all that start-up made is set aside, the old ones are few and looking at them is cheap; seldom, it let
garbage lie for 25 minutes of a full load.
"""

LARGE_BYTES: Final = 512 * 1024
"""Blocks from this size on are returned to the system as soon as they are freed.

glibc would raise its threshold up to 32 MiB with every larger block that is freed, and tables that are made
anew as they fill would then leave holes in the heap that nothing fits into. asyncio receives into blocks of
256 KiB, which must stay below it: mapping and unmapping one for each receive costs more than the receive.
"""

TRIM_BYTES: Final = 2 * 1024 * 1024
"""Free memory that stays at the end of the heap. With glibc's 128 KiB every receive into 256 KiB would grow
the heap and shrink it again: 18 microseconds instead of 2.4 for a message of 300 bytes over a socket pair."""

_M_MMAP_THRESHOLD: Final = -3
_M_TRIM_THRESHOLD: Final = -1
"""The names of these limits in glibc's malloc.h; mallopt(3)."""


_STOPPING: Final = (signal.SIGTERM, signal.SIGINT)

log = structlog.get_logger("veristream")

COMMAND_VARIABLES: Final = (f"{PREFIX}WEBHOOK_SECRET",)
"""Read by `veristream webhook` and not by the service."""

_NESTED: Final = "__"
"""Between the parts of a setting that is an object: `SERVICE_FACES__DETECTOR__PATH`."""


class CannotStart(Exception):
    """A part cannot start; the message says how to fix it."""


def run(role: Coroutine[Any, Any, None]) -> None:
    """Run a role of the service to its end, on uvloop.

    The policy, not only this loop: Faust's consumer makes a loop of its own on its thread.
    """
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(stoppable(role))


async def stoppable(role: Coroutine[Any, Any, None]) -> None:
    """Run a role; a SIGTERM or SIGINT while it starts cancels it, and what it opened is closed.

    Once the role is ready `wait_for_stop_signal` waits for the signal. In either case a second one ends the
    process at once.
    """
    running = asyncio.ensure_future(role)
    with _first_signal(running.cancel) as signalled:
        await asyncio.wait({running})
    if not (signalled.is_set() and running.cancelled()):
        running.result()


async def wait_for_stop_signal() -> None:
    """Return at the first SIGTERM or SIGINT; a second one ends the process at once."""
    with _first_signal() as signalled:
        await signalled.wait()


@contextmanager
def _first_signal(act: Callable[[], object] = lambda: None) -> Iterator[asyncio.Event]:
    """Act on the first SIGTERM or SIGINT instead of ending the process; the event is set by it."""
    signalled, loop = asyncio.Event(), asyncio.get_running_loop()

    def restore() -> None:
        for number in _STOPPING:
            loop.remove_signal_handler(number)

    def handle() -> None:
        restore()
        signalled.set()
        act()

    for number in _STOPPING:
        loop.add_signal_handler(number, handle)
    try:
        yield signalled
    finally:
        restore()


def collect_seldom() -> None:
    """Let the garbage collector look seldom while a process starts; `settle_memory` ends it for a role."""
    gc.set_threshold(START_COLLECT_AFTER)


def settle_memory() -> None:
    """Freeze the objects of start-up for the garbage collector, and return freed memory to the system.

    Libraries and models leave several hundred thousand objects that live as long as the process;
    walking them took about a quarter of the time of a small request. Trying the models out frees several
    hundred megabytes, which glibc would keep for as long as something lies behind them.
    """
    gc.collect()
    gc.freeze()
    gc.collect()  # it looks again at a quarter more than it found last: now that is little
    gc.set_threshold(*COLLECT_AFTER)
    with suppress(OSError, AttributeError):  # a C library other than glibc has neither
        c_library = ctypes.CDLL(None)
        c_library.mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
        c_library.mallopt(_M_TRIM_THRESHOLD, TRIM_BYTES)
        c_library.malloc_trim(0)


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


def installed_version() -> str:
    """Return the version, or `unknown` in a source tree that was never installed."""
    try:
        return version("veristream")
    except PackageNotFoundError:
        return "unknown"


def known_variables() -> tuple[str, ...]:
    """Return every variable that is read, those of secret files among them."""
    known = list(COMMAND_VARIABLES)
    for name, info in Settings.model_fields.items():
        known.append(f"{PREFIX}{name}".upper())
        if "SecretStr" in str(info.annotation):
            known.append(f"{PREFIX}{name}_FILE".upper())
    return tuple(known)


def unknown_variables(names: Iterable[str] | None = None) -> Iterator[tuple[str, str]]:
    """Return each unknown variable with the prefix of settings, with the nearest known name.

    Values are never looked at. Without `names`, those of this process's environment.
    """
    known = known_variables()
    for name in sorted(os.environ if names is None else names):
        upper = name.upper()
        if upper.startswith(PREFIX) and upper not in known and not _is_part_of_an_object(upper):
            yield name, difflib.get_close_matches(upper, known, n=1, cutoff=0.0)[0]


def warn_of_unknown_variables() -> None:
    """Log a warning for each; every role calls it when it starts."""
    for name, nearest in unknown_variables():
        log.warning("settings.variable_ignored", variable=name, nearest=nearest)


def _is_part_of_an_object(upper: str) -> bool:
    whole, nested, _ = upper.partition(_NESTED)
    field = Settings.model_fields.get(whole.removeprefix(PREFIX).lower())
    return bool(nested) and field is not None and "dict" in str(field.annotation)
