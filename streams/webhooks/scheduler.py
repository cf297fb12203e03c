"""Find deliveries that are due (retries, replays, lost ones) and send their `Deliver` commands."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import structlog

from schemas.base import Frozen, Timestamp
from schemas.ids import PLATFORM, DeliveryId
from schemas.problems import NotFound, StoreUnavailable
from schemas.webhooks import Deliver, DeliveryWatch
from streams.ports.errors import Conflict
from streams.ports.records import Change, Position, Record, RecordKind
from streams.ports.stores import Stores
from streams.runtime.background import sleep_aligned
from streams.runtime.outbox_relay import beside
from streams.runtime.producer import Outgoing
from streams.webhooks.fanout import command_record
from streams.webhooks.ports import Write
from streams.webhooks.records import ALL_TENANTS, due_index

log = structlog.get_logger(__name__)

EVERY_S: Final = 1.0
"""The shortest step of the schedule is 5 s."""

MARK: Final = "webhook-sweep"
"""The id of the record that stores the oldest minute with deliveries left."""

PAGE: Final = 200
TENANTS_PAGE: Final = 100

_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class SweepPace:
    """How far back a sweep reads, and how often it repeats a command; tests pass another."""

    current: timedelta = timedelta(seconds=5)
    """Minutes this recent are read in each round: in them deliveries come due."""
    recent: timedelta = timedelta(minutes=2)
    """Minutes this recent are read as often as `recent_every` says: a delivery may be added to them late."""
    recent_every: timedelta = timedelta(seconds=5)
    older_every: timedelta = timedelta(minutes=1)
    """Interval between two reads of all older minutes."""
    settled: timedelta = timedelta(minutes=15)
    """No delivery is added to minutes older than this: clocks differ by less."""
    again_after: timedelta = timedelta(minutes=1)
    """Interval after which the command of a delivery that is still due is repeated."""
    most: int = 2_000
    """Deliveries of one minute read per round; the next round continues after them."""
    look_back: timedelta = timedelta(days=14)
    """How far back the very first sweep reads at most."""


@dataclass(frozen=True, slots=True)
class _Swept:
    """The result of reading one minute."""

    sent: int
    empty: bool


class SweepMark(Frozen):
    """The oldest minute that may still have a delivery."""

    oldest: Timestamp


class DeliveryScheduler:
    """Send a `Deliver` command for every due delivery; a repeated command changes nothing."""

    def __init__(
        self, stores: Stores, write: Write, now: Callable[[], datetime], pace: SweepPace | None = None
    ) -> None:
        self._records = stores.records
        self._journal = stores.journal
        self._write = write
        self._now = now
        self._pace = pace or SweepPace()
        self._requested: dict[tuple[DeliveryId, datetime], datetime] = {}
        """When the last command was sent, by delivery and due time: a retry is another command."""
        self._places: dict[datetime, Position] = {}
        """Where the next round continues in minutes with more than `most` deliveries."""
        self._older: set[datetime] = set()
        """Minutes before the recent ones that may have deliveries."""
        self._seen_to: datetime | None = None
        """The first minute not yet added to the older ones; None before the mark was read."""
        self._recent_at: datetime | None = None
        """When the recent minutes were last read."""
        self._older_at: datetime | None = None
        """When the older minutes were last read."""

    async def sweep(self) -> int:
        """Send the commands that are due; return how many.

        Raises:
            StoreUnavailable: The store or the log is away; the next round tries again.
        """
        now = self._now()
        self._forget(now)
        since, recent = (
            _minute(now - self._pace.recent),
            self._is_over(self._recent_at, self._pace.recent_every),
        )
        minutes = _minutes(since if recent else now - self._pace.current, now)
        sent = sum([(await self._sweep_minute(minute, now)).sent for minute in minutes])
        self._recent_at = now if recent else self._recent_at
        if self._is_over(self._older_at, self._pace.older_every):
            sent += await self._sweep_older(since, now)
            self._older_at = now
        return sent

    def _is_over(self, last: datetime | None, pause: timedelta) -> bool:
        return last is None or not last <= self._now() < last + pause  # a clock may be set back

    def _forget(self, now: datetime) -> None:
        fresh = now - self._pace.again_after
        self._requested = {key: at for key, at in self._requested.items() if fresh < at <= now}

    async def _sweep_older(self, until: datetime, now: datetime) -> int:
        """Read every older minute that may have deliveries, and move the mark to the oldest that has."""
        seen_to = min(self._seen_to or await self._first_minute(now), until)
        self._older.update(_minutes(max(seen_to, now - self._pace.look_back), until - _MINUTE))
        self._seen_to = until
        settled, sent = _minute(now - self._pace.settled), 0
        for minute in sorted(self._older):
            swept = await self._sweep_minute(minute, now)
            sent += swept.sent
            if swept.empty and minute < settled:
                self._older.discard(minute)
        await self._move_mark(min(self._older, default=settled))
        return sent

    async def _first_minute(self, now: datetime) -> datetime:
        """Return the mark; without one, the creation time of the first endpoint."""
        try:
            found = await self._records.get(PLATFORM, RecordKind.COUNTER, MARK)
        except NotFound:
            earliest = await self._first_endpoint(now)
            return _minute(max(earliest - self._pace.settled, now - self._pace.look_back))
        return min(SweepMark.from_bytes(found.body).oldest, _minute(now - self._pace.settled))

    async def _first_endpoint(self, now: datetime) -> datetime:
        """Return when the first endpoint of all was created."""
        earliest, before = now, None
        while page := await self._records.page(
            PLATFORM, RecordKind.WEBHOOK_TENANT, ALL_TENANTS, limit=TENANTS_PAGE, before=before
        ):
            earliest = min(earliest, page[-1].created_at)
            before = Position(page[-1].created_at, page[-1].id)
        return earliest

    async def _move_mark(self, oldest: datetime) -> None:
        body = SweepMark(oldest=oldest).to_bytes()
        try:
            found = await self._records.get(PLATFORM, RecordKind.COUNTER, MARK)
        except NotFound:
            record = Record(PLATFORM, RecordKind.COUNTER, MARK, body, self._now())
        else:
            if SweepMark.from_bytes(found.body).oldest == oldest:
                return
            record = replace(found, body=body, version=found.version + 1)
        with suppress(Conflict):  # another process moved it just now
            await self._journal.commit(Change(PLATFORM, (record,)))

    async def _sweep_minute(self, minute: datetime, now: datetime) -> _Swept:
        """Send the due commands of one minute, at most `most`; the next round continues from there."""
        sent, looked_at, before = 0, 0, self._places.pop(minute, None)
        whole = before is None
        while looked_at < self._pace.most:
            page = await self._records.page(
                PLATFORM, RecordKind.DELIVERY_WATCH, due_index(minute), limit=PAGE, before=before
            )
            sent += await self._request_attempts(page, now)
            looked_at += len(page)
            if len(page) < PAGE:
                return _Swept(sent, empty=whole and not looked_at)
            before = Position(page[-1].created_at, page[-1].id)
        if before is not None:
            self._places[minute] = before
        return _Swept(sent, empty=False)

    async def _request_attempts(self, page: Sequence[Record], now: datetime) -> int:
        watches = [DeliveryWatch.from_bytes(record.body) for record in page]
        due = [
            (watch, watch.due)
            for watch in watches
            if watch.due is not None
            and watch.due <= now
            and (watch.delivery_id, watch.due) not in self._requested
        ]
        await self._write(*(_deliver_command(watch) for watch, _ in due))
        self._requested.update({(watch.delivery_id, at): now for watch, at in due})
        return len(due)

    async def run(self, every_s: float = EVERY_S) -> None:
        """Sweep until cancelled; an unavailable store or Kafka is retried in the next round."""
        while True:
            try:
                await self.sweep()
            except StoreUnavailable:
                log.warning("webhooks.sweep_deferred")
            await sleep_aligned(every_s)


@asynccontextmanager
async def scheduling_deliveries(sweeper: DeliveryScheduler, every_s: float = EVERY_S) -> AsyncIterator[None]:
    """Run the scheduler in the background for the length of the context."""
    async with beside(lambda: sweeper.run(every_s), "delivery-scheduler", every_s):
        yield


def _deliver_command(watch: DeliveryWatch) -> Outgoing:
    command = Deliver(tenant_id=watch.tenant_id, endpoint_id=watch.endpoint_id, delivery_id=watch.delivery_id)
    return command_record(command.endpoint_id, command.to_bytes())


def _is_over(last: datetime | None, pause: timedelta, now: datetime) -> bool:
    return last is None or not last <= now < last + pause  # a clock may be set back


def _minute(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)


def _minutes(since: datetime, until: datetime) -> list[datetime]:
    """Return every minute from the one of `since` to the one of `until`."""
    first = _minute(since)
    count = int((_minute(until) - first) / _MINUTE) + 1
    return [first + number * _MINUTE for number in range(max(count, 0))]
