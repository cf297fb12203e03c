"""Query parameters and pages of the list routes."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from app.http.endpoints import Call, Parameter
from schemas.base import Timestamp
from schemas.ids import TenantId
from schemas.problems import FieldProblem, ProblemCode, Refused
from streams.ports.records import Found, Position, Record, RecordKind, Records

_LIMIT = re.compile(r"[0-9]{1,9}")
_TIME: Final[TypeAdapter[datetime]] = TypeAdapter(Timestamp)
_RFC3339 = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})")

Word = TypeVar("Word", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Paging:
    """Default and maximum page size of a list."""

    usual: int
    most: int

    def limit(self, query: Mapping[str, str]) -> int:
        """Return the requested page size, cut to the maximum.

        Raises:
            Refused: FILTER_INVALID; not a whole number, or negative.
        """
        given = query.get("limit")
        if given is None:
            return self.usual
        if _LIMIT.fullmatch(given) is None:
            raise refused_filter("limit", "The limit must be a whole number, 0 or more.")
        return min(int(given), self.most)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """`limit` and `cursor` as the description shows them."""
        limit = {"type": "integer", "minimum": 0, "default": self.usual}
        return (
            Parameter("limit", f"Rows per page; above {self.most} it is cut to {self.most}.", limit),
            Parameter(
                "cursor", "The previous page's `next_cursor`, with the same filters.", {"type": "string"}
            ),
        )


@dataclass(frozen=True, slots=True)
class Page:
    """The requested page of a list."""

    limit: int
    before: Position | None


def word(query: Mapping[str, str], name: str, vocabulary: type[Word]) -> Word | None:
    """Return the value of a parameter that takes one word of a closed list.

    Raises:
        Refused: FILTER_INVALID.
    """
    given = query.get(name)
    if given is None:
        return None
    if given not in set(vocabulary):
        raise refused_filter(name, f"The value must be one of {', '.join(vocabulary)}.")
    return vocabulary(given)


def text(query: Mapping[str, str], name: str, form: str) -> str | None:
    """Return the value of a parameter that has a form.

    Raises:
        Refused: FILTER_INVALID.
    """
    given = query.get(name)
    if given is not None and re.fullmatch(form, given) is None:
        raise refused_filter(name, "The value does not have the form of such an identifier.")
    return given


def moment(query: Mapping[str, str], name: str) -> datetime | None:
    """Return the value of a parameter that takes an RFC 3339 time.

    Raises:
        Refused: FILTER_INVALID.
    """
    given = query.get(name)
    if given is None:
        return None
    found = parse_moment(given)
    if found is None:
        raise refused_filter(name, "The value must be an RFC 3339 time such as 2026-01-31T12:00:00Z.")
    return found


def parse_moment(text: str) -> datetime | None:
    """Return the RFC 3339 time, None when it is none."""
    try:
        return _TIME.validate_python(text) if _RFC3339.fullmatch(text) is not None else None
    except (ValidationError, OverflowError):  # the latter in the first and last hours of the calendar
        return None


LIVEMODE: Final = Parameter(
    "livemode", "Live data only, or test data only; a key sees its own mode whatever is asked.",
    {"type": "boolean"},
)  # fmt: skip


def modes(call: Call) -> tuple[bool, ...]:
    """Return the modes the caller sees: a key its own, a reviewer both or the requested one (G92).

    Raises:
        Refused: FILTER_INVALID.
    """
    given = call.request.query.get("livemode")
    if given not in {None, "true", "false"}:
        raise refused_filter("livemode", "The value must be true or false.")
    if call.tenant is not None:
        return (call.tenant.livemode,)
    return (True, False) if given is None else (given == "true",)


def refused_filter(parameter: str, message: str) -> Refused:
    """Build the error of one parameter."""
    code = ProblemCode.FILTER_INVALID
    return Refused.because(code, message, FieldProblem(code=code, message=message, parameter=parameter))


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of records, newest first, and where the next one begins; None: this is the last."""

    records: Sequence[Record]
    following: Position | None = None


async def page_of(
    records: Records,
    tenant_id: TenantId,
    kind: RecordKind,
    modes: Sequence[bool],
    index_of: Callable[[bool], tuple[str, str]],
    page: Page,
    fragment: str = "",
) -> Listed:
    """Return the page; a search that stopped on its way leaves it shorter than it might be.

    `index_of` names the list of one mode; the lists of several modes are merged by (created_at, id).
    With a fragment only those are listed whose searched text contains it.
    """
    if page.limit == 0:
        return Listed(())

    async def ask(index: tuple[str, str]) -> Found:
        most, before = page.limit + 1, page.before
        if fragment:
            return await records.search(tenant_id, kind, index, fragment, limit=most, before=before)
        return Found(await records.page(tenant_id, kind, index, limit=most, before=before))

    lists = await asyncio.gather(*(ask(index_of(livemode)) for livemode in modes))
    edge = max((one.further for one in lists if one.further is not None), default=None)
    found = sorted((record for one in lists for record in one.records), key=place_of, reverse=True)
    known = [record for record in found if edge is None or place_of(record) >= edge]
    if len(known) > page.limit:
        return Listed(known[: page.limit], place_of(known[page.limit - 1]))
    return Listed(known, edge)


def place_of(record: Record) -> Position:
    """Return the position of the record in every list."""
    return Position(record.created_at, record.id)
