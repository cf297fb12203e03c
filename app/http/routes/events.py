"""`GET /v1/events`: the decision events of the last 30 days, oldest first, to catch up by (G56, G101)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Final

from aiohttp import web

from app.http.cursors import Cursors
from app.http.endpoints import Access, Answer, Call, Credential, Endpoint, Parameter
from app.http.listing import Paging, refused_filter, text
from app.http.ports import FrontPorts
from app.http.responses import json_list
from schemas.base import Frozen
from schemas.enums import Scope
from schemas.events import DecisionEvent, EventType
from schemas.ids import EventId, TenantId
from schemas.problems import NotFound, ProblemCode, Refused
from streams.ports.events import EventFeed, FedEvent
from streams.ports.records import Position
from streams.retention.expiry import REMOVED_AFTER

PATH: Final = "/v1/events"
PAGING: Final = Paging(usual=100, most=500)
RETENTION: Final = timedelta(days=30)

LOOKED_THROUGH: Final = 500
"""Events read at once where only some types are wanted."""

MOST_LOOKED_THROUGH: Final = 5_000
"""After so many a page ends, however few were wanted; its cursor goes on behind them."""

_EVENT_FORM: Final = r"evt_[0-9a-hjkmnp-tv-z]{26}"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of a position before any event; cursors of earlier versions have no other."""

_NOT_STORED: Final = (
    f"There is no such event, or it is older than {RETENTION.days} days and was removed; "
    f"without `after`, the list begins {RETENTION.days} days ago."
)


class EventList(Frozen):
    """A page of events, oldest first."""

    events: tuple[DecisionEvent, ...]
    next_cursor: str | None
    """Null when nothing stands behind the page for now; ask again later, after its last event."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events are asked for."""

    tenant_id: TenantId
    livemode: bool
    types: frozenset[EventType]
    """Empty: all."""
    limit: int
    after: EventId | None

    def admits(self, event: DecisionEvent) -> bool:
        """Return whether an event is meant; the one to continue after may be in the feed twice."""
        return (not self.types or event.type in self.types) and event.id != self.after

    @property
    def at_once(self) -> int:
        """How many events to read at once: one more than the page holds, or many to choose from."""
        return LOOKED_THROUGH if self.types else self.limit + 1

    @property
    def scope(self) -> dict[str, str]:
        """What a cursor is bound to."""
        mode = str(self.livemode).lower()
        return {
            "list": PATH,
            "tenant": self.tenant_id,
            "livemode": mode,
            "types": ",".join(sorted(self.types)),
        }


@dataclass(frozen=True, slots=True)
class Found:
    """The events of a page, and the time and place to go on from, None when there is nothing behind it."""

    events: Sequence[DecisionEvent]
    position: Position | None


@dataclass(frozen=True, slots=True)
class EventRoutes:
    """What the route of the feed does."""

    ports: FrontPorts
    cursors: Cursors

    async def read(self, call: Call) -> web.Response:
        """Answer a page of the events of the key's tenant and mode."""
        wanted = _wanted(call)
        if wanted.limit == 0:
            return json_list("events", (), None)
        try:
            found = await find(self._feed, wanted, await self._start(call, wanted))
        except ValueError:  # a cursor of this deployment's former store
            raise _gone() from None
        position = found.position
        next_cursor = None if position is None else self.cursors.write(position, wanted.scope)
        return json_list("events", [event.to_bytes() for event in found.events], next_cursor)

    @property
    def _feed(self) -> EventFeed:
        return self.ports.stores.feed

    async def _start(self, call: Call, wanted: Wanted) -> str:
        """Return the position to begin after: of a cursor, an event, or 30 days ago.

        Raises:
            Refused: CURSOR_INVALID, also for one behind which events were removed; FILTER_INVALID for an
                event this tenant and mode does not have any more.
        """
        cursor, now = call.request.query.get("cursor"), self.ports.clock()
        if cursor is not None:
            position = self.cursors.read(cursor, wanted.scope)
            if _EPOCH < position.created_at <= now - REMOVED_AFTER:
                raise _too_old()
            return position.id
        if wanted.after is None:
            moment = now - RETENTION
            return await self._feed.place_at(wanted.tenant_id, livemode=wanted.livemode, moment=moment)
        try:
            return await self._feed.place_of(wanted.tenant_id, wanted.after, livemode=wanted.livemode)
        except NotFound:
            raise refused_filter("after", _NOT_STORED) from None


async def find(feed: EventFeed, wanted: Wanted, start: str) -> Found:
    """Return the requested events after a position.

    Where others stand behind the last of them, the page has a place to go on from, so that they are not
    looked through again; a page may be empty because of them.
    """
    found: list[DecisionEvent] = []
    position, beyond, seen = Position(_EPOCH, start), False, 0
    while True:
        rows = await feed.page(
            wanted.tenant_id, livemode=wanted.livemode, after=position.id, limit=wanted.at_once
        )
        for fed in rows:
            if wanted.admits(fed.event) and len(found) == wanted.limit:
                return Found(found, position)
            beyond = not _taken(fed, wanted, found)
            position = Position(fed.event.timestamp, fed.place)
        seen += len(rows)
        if len(rows) < wanted.at_once:
            return Found(found, position if beyond else None)
        if seen >= MOST_LOOKED_THROUGH:
            return Found(found, position)


def _taken(fed: FedEvent, wanted: Wanted, found: list[DecisionEvent]) -> bool:
    """Take the event if it is wanted."""
    if not wanted.admits(fed.event):
        return False
    found.append(fed.event)
    return True


def _wanted(call: Call) -> Wanted:
    """Read the parameters.

    Raises:
        Refused: FILTER_INVALID at the first that is malformed.
    """
    query, caller = call.request.query, call.caller
    after = text(query, "after", _EVENT_FORM)
    return Wanted(
        tenant_id=caller.tenant_id,
        livemode=caller.livemode,
        types=_types(query.get("types")),
        limit=PAGING.limit(query),
        after=None if after is None else EventId(after),
    )


def _types(given: str | None) -> frozenset[EventType]:
    if given is None:
        return frozenset()
    names = given.split(",")
    unknown = [name for name in names if name not in set(EventType)]
    if unknown:
        raise refused_filter("types", "The value must be event types of the list, with commas between them.")
    return frozenset(map(EventType, names))


def _gone() -> Refused:
    return Refused.because(ProblemCode.CURSOR_INVALID, "The cursor belongs to a feed that is no more.")


def _too_old() -> Refused:
    message = f"Events behind the cursor were removed after {RETENTION.days} days; begin without a cursor."
    return Refused.because(ProblemCode.CURSOR_INVALID, message)


_ONE_TYPE: Final = "(" + "|".join(name.replace(".", r"\.") for name in EventType) + ")"

PARAMETERS: Final = (
    Parameter(
        "after",
        "The id of an event: those that became visible after it. Without it, those of the last 30 days. "
        "A `cursor` outdoes it.",
        {"type": "string", "pattern": f"^{_EVENT_FORM}$"},
    ),
    Parameter(
        "types",
        "Events of these types alone, with commas between them.",
        {"type": "string", "pattern": f"^{_ONE_TYPE}(,{_ONE_TYPE})*$"},
    ),
    *PAGING.parameters,
)


def event_endpoints(routes: EventRoutes) -> tuple[Endpoint, ...]:
    """Return the route as data."""
    return (
        Endpoint(
            method="GET",
            path=PATH,
            handler=routes.read,
            summary="Read the decision events of the last 30 days, oldest first",
            description=(
                "For a receiver that was away: the bodies are those of the webhooks. Events are told at "
                "least once, here too; know them by their `id`. Page by `cursor` until `next_cursor` is "
                "null, then go on with `after` the last event. A page may be empty and have a "
                "`next_cursor`, when there are only events of other types. Over a store of several nodes "
                "an event is here some seconds after it happened."
            ),
            family="Events",
            answers={HTTPStatus.OK: Answer("A page of events.", EventList)},
            access=Access(frozenset({Credential.TENANT_KEY}), scope=Scope.EVENTS_READ),
            parameters=PARAMETERS,
        ),
    )
