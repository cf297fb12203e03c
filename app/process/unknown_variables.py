"""Find environment variables that look like settings of this service and are none (R12)."""

import difflib
import os
from collections.abc import Iterable, Iterator
from typing import Final

import structlog

from app.settings import PREFIX, Settings

log = structlog.get_logger("veristream")

COMMAND_VARIABLES: Final = (f"{PREFIX}WEBHOOK_SECRET",)
"""Read by `veristream webhook` and not by the service."""

_NESTED: Final = "__"
"""Between the parts of a setting that is an object: `SERVICE_FACES__DETECTOR__PATH`."""


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
