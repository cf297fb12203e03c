"""JSON as a stranger may send it: what the standard parser lets pass and a signed or hashed body must not."""

import json
from typing import Any, Final, NoReturn

from schemas.problems import ProblemCode, Refused

MAX_DEPTH: Final = 32
"""Levels of nesting (S44)."""
MAX_KEYS: Final = 2_000
"""Object keys in the whole body (S44)."""
MAX_SEPARATORS: Final = 20_000
"""Commas and opening brackets, strings included: bounds what the parser builds before it is looked at."""

SMALL_BYTES: Final = 64 * 1024
"""A text this short is not worth counting: whatever it holds is built and looked at in some 10 ms."""

_SEPARATORS: Final = (b",", b"[", b"{")


class _Refusing(ValueError):
    """The text breaks one of the rules beyond the grammar."""


def parse(raw: bytes) -> Any:
    """Return the value of a JSON text.

    The time is the standard parser's: long strings are never looked at character by character here.

    Raises:
        Refused: MALFORMED_JSON; not UTF-8, not JSON, a duplicate key, NaN or Infinity or a number too large,
            a lone surrogate, too deep or too many keys.
    """
    try:
        _bound(raw)
        value = json.loads(
            raw.decode(),
            object_pairs_hook=_object,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
        _walk(value)
    except _Refusing as error:
        raise _malformed(str(error)) from None
    except RecursionError:
        raise _malformed(f"The body is nested deeper than {MAX_DEPTH} levels.") from None
    except ValueError:  # the grammar's, the codec's and that of integers with thousands of digits
        raise _malformed("The body is not JSON in UTF-8.") from None
    return value


def _malformed(detail: str) -> Refused:
    return Refused.because(ProblemCode.MALFORMED_JSON, detail)


def _bound(raw: bytes) -> None:
    if len(raw) > SMALL_BYTES and sum(raw.count(each) for each in _SEPARATORS) > MAX_SEPARATORS:
        raise _Refusing("The body has too many parts.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Refusing("The body has an object with a duplicate key.")
    return found


def _no_constant(_: str) -> NoReturn:
    raise _Refusing("The body has a number that is not finite.")


def _finite(text: str) -> float:
    value = float(text)
    if value in {float("inf"), float("-inf")}:
        raise _Refusing("The body has a number that is not finite.")
    return value


def _walk(value: Any) -> None:
    """Look at every part once, level by level."""
    level, depth, keys = [value], 0, 0
    while level:
        below: list[Any] = []
        for part in level:
            if isinstance(part, dict):
                keys += len(part)
                below.extend(part)
                below.extend(part.values())
            elif isinstance(part, list):
                below.extend(part)
            elif isinstance(part, str) and not part.isascii():
                _whole(part)
        nested = any(isinstance(part, dict | list) for part in level)
        depth += nested
        if depth > MAX_DEPTH:
            raise _Refusing(f"The body is nested deeper than {MAX_DEPTH} levels.")
        if keys > MAX_KEYS:
            raise _Refusing(f"The body has more than {MAX_KEYS} keys.")
        level = below


def _whole(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _Refusing("The body has a lone surrogate.") from None
