"""Versions as entity tags: what an answer is, and which version a change was meant for (G98, RFC 9110)."""

import re
from typing import Final

from aiohttp import web

from schemas.problems import FieldProblem, ProblemCode, Refused

_TAG: Final = re.compile(r'"([!#-~]{1,80})"')
_BARE: Final = re.compile(r"[0-9]{1,9}")


def etag(version: int | str) -> str:
    """Return the strong entity tag of a version."""
    return f'"{version}"'


def if_match(request: web.Request, *, required: bool) -> int | None:
    """Return the version the caller saw; None when any will do.

    Raises:
        Refused: PRECONDITION_REQUIRED when it must be named, PRECONDITION_FAILED when it is no version.
    """
    given = request.headers.get("If-Match", "").strip()
    if not given:
        if required:
            raise _refused(ProblemCode.PRECONDITION_REQUIRED, "Say with If-Match which version you changed.")
        return None
    if given == "*":
        return None
    quoted = _TAG.fullmatch(given)
    version = quoted[1] if quoted else given
    if _BARE.fullmatch(version) is None:
        raise changed_since()
    return int(version)


def changed_since() -> Refused:
    """Build the refusal of a change that was meant for another version."""
    return _refused(ProblemCode.PRECONDITION_FAILED, "It has another version now; read it again.")


def is_unchanged(request: web.Request, tag: str) -> bool:
    """Return whether the caller has this version already (`If-None-Match`)."""
    given = [one.strip().removeprefix("W/") for one in request.headers.get("If-None-Match", "").split(",")]
    return tag in given or given == ["*"]


def _refused(code: ProblemCode, message: str) -> Refused:
    return Refused.because(code, message, FieldProblem(code=code, message=message, header="If-Match"))
