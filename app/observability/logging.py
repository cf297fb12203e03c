"""Configure structured logs without personal data."""

import io
import logging
import re
import sys
import traceback
from collections.abc import MutableMapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, Literal, TextIO, cast

import structlog
from structlog.typing import Processor, WrappedLogger
from typing_extensions import override

from schemas.problems import EngineFailed, StoreUnavailable
from streams.runtime.tenant_scope import tenant_in_work

LogFormat = Literal["auto", "json", "pretty"]
"""`auto` is `pretty` on a terminal and JSON lines anywhere else."""


HIDDEN: Final = "[hidden]"


_SECRET_WORDS: Final = (
    "password", "secret", "token", "authorization", "cookie", "api_key", "image", "body", "extracted",
    "declared", "document_number", "personal", "sealed", "otp", "recovery_code",
)  # fmt: skip
"""A key that contains one of them never shows its value (S60)."""


_KEY_SHAPE: Final = re.compile(r"idv_(?:live|test)_[0-9A-Za-z]+(?:_[0-9A-Za-z]+)?|whsec_[0-9A-Za-z+/=]+")
"""Credentials of our own making, wherever they turn up."""


_SPEAKING: Final = (OSError, StoreUnavailable, EngineFailed)
"""Errors whose words are about machines, not about people; of all others only the kind is logged."""


_QUIET: Final = {
    "aiohttp.access": logging.CRITICAL,
    "aiokafka": logging.WARNING,
    "asyncio": logging.WARNING,
    "mode.timers": logging.ERROR,  # warns of each timer that a busy machine delays
}
"""Libraries that say too much at any level."""


_OF_LIBRARIES: Final = logging.WARNING
"""From here on libraries are shown, unless `debug` is asked for: at `info` the stream library alone writes
a hundred lines at a start, tables and internal names among them. Our own lines do not pass these loggers."""


Event = MutableMapping[str, Any]


def hide_secrets(_: WrappedLogger, __: str, event: Event) -> Event:
    """Replace values that are secret by their key's name or by their shape."""
    for key, value in event.items():
        if _is_secret(key):
            event[key] = HIDDEN
        elif isinstance(value, str):
            if "idv_" in value or "whsec_" in value:
                event[key] = _KEY_SHAPE.sub(HIDDEN, value)
        elif isinstance(value, bytes | bytearray | memoryview):
            event[key] = f"[{len(value)} bytes]"
    return event


@lru_cache(maxsize=1024)
def _is_secret(key: str) -> bool:
    return any(word in key for word in _SECRET_WORDS)


def add_tenant(_: WrappedLogger, __: str, event: Event) -> Event:
    """Add the tenant of the record or request, unless the line has one."""
    tenant_id = tenant_in_work()
    if tenant_id is not None:
        event.setdefault("tenant_id", tenant_id)
    return event


def format_exception(_: WrappedLogger, __: str, event: Event) -> Event:
    """Write an exception as its kinds and places; never locals, and words only of errors about machines."""
    given = event.pop("exc_info", None)
    error = sys.exc_info()[1] if given is True else given[1] if isinstance(given, tuple) else given
    if isinstance(error, BaseException):
        event["error"] = " <- ".join(_described(one) for one in _chain(error))
        event["trace"] = [
            f"{f.filename}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__)
        ]
    return event


class Lossy(io.TextIOBase):
    """Writes to a stream and loses what it does not take: a full disk under the log stops nothing else."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @override
    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    @override
    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def configure_logging(
    log_format: LogFormat, level: str, stream: TextIO | None = None, *, cached: bool = True
) -> None:
    """Send every line of ours and of the libraries to one stream (standard error when none is given).

    `cached` may be turned off where the stream changes later, as in tests.
    """
    chosen = stream if stream is not None else sys.stderr
    pretty = log_format == "pretty" or (log_format == "auto" and chosen.isatty())
    out = cast("TextIO", Lossy(chosen))  # what it lacks of one, nobody who logs asks for
    threshold = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        add_tenant,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        format_exception,
        hide_secrets,
    ]
    renderer: Processor = (
        structlog.dev.ConsoleRenderer() if pretty else structlog.processors.JSONRenderer(sort_keys=False)
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=cached,
    )
    _adopt_libraries(shared, renderer, out, threshold)


def _adopt_libraries(shared: list[Processor], renderer: Processor, out: TextIO, threshold: int) -> None:
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, structlog.stdlib.ExtraAdder(), *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(threshold if threshold <= logging.DEBUG else max(threshold, _OF_LIBRARIES))
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(max(least, threshold))


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    while error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__ or error
    return found


def _described(error: BaseException) -> str:
    kind = type(error).__name__
    return f"{kind}: {error}" if isinstance(error, _SPEAKING) else kind
