"""Deliveries end 31 days after their last attempt, in every store, whatever ends the sweep."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from schemas.audit import AuditFilter
from schemas.ids import PLATFORM, DeliveryId, EventId, TenantId, derive_id
from schemas.problems import NotFound, StoreUnavailable
from schemas.webhooks import (
    ANY_TYPE,
    Attempt,
    Delivery,
    DeliveryStatus,
    FailureKind,
    ReplayEvents,
    WebhookEndpoint,
)
from streams.ports.records import Change, RecordKind
from streams.ports.stores import Stores
from streams.runtime.producer import Outgoing
from streams.runtime.record_removal import MOST_REMOVED, RemovalPace, removing_records
from streams.webhooks.fanout import FanOut
from streams.webhooks.records import delivery_records, endpoint_index, fresh
from streams.webhooks.removal import DeliveryRemoval
from streams.webhooks.replay import DeliverAgain
from tests.builders import ACME, GLOBEX, NOW, build_decision_event
from tests.contracts.adapters import Opened
from tests.handlers.endpoint_stage import ACTOR, BOTH, Stage
from tests.handlers.verification_stage import Breaking
from tests.handlers.webhook_stage import open_stage

DAY = timedelta(days=1)
FAILED, PENDING, DELIVERED = DeliveryStatus.FAILED, DeliveryStatus.PENDING, DeliveryStatus.DELIVERED


@pytest.fixture
def stage(opened: Opened) -> Stage:
    """The use cases over every adapter in turn."""
    return Stage(opened.stores)


async def deliver(
    stage: Stage,
    endpoint: WebhookEndpoint,
    name: str = "first",
    tenant_id: TenantId = ACME,
    *,
    status: DeliveryStatus = FAILED,
    last_days: float = 0,
) -> Delivery:
    """A delivery begun now, with its last attempt so many days later."""
    event = build_decision_event(id=EventId(derive_id("evt", name)), tenant_id=tenant_id)
    begun = fresh(event, await stage.stored(endpoint, tenant_id), NOW)
    at = NOW + timedelta(days=last_days)
    attempt = Attempt(number=1, at=at, latency_ms=15_000, failure=FailureKind.TIMEOUT)
    following = at + DAY if status is PENDING else None
    changes = {"status": status, "attempts": (attempt,), "next_attempt_at": following}
    ended = begun.model_copy(update={"delivery": begun.delivery.model_copy(update=changes)})
    await stage.stores.journal.commit(Change(tenant_id, delivery_records(ended, following)))
    return ended.delivery


async def sweep(
    stage: Stage, days: float, pace: RemovalPace | None = None, stores: Stores | None = None
) -> int:
    """Sweep so many days from now, as a process that just started."""
    now = NOW + timedelta(days=days)
    return await DeliveryRemoval(stores or stage.stores, lambda: now, pace or RemovalPace()).sweep()


async def find(stage: Stage, delivery_id: DeliveryId, tenant_id: TenantId = ACME) -> list[RecordKind]:
    """Which of a delivery's two records are stored."""
    found = []
    for owner, kind in ((tenant_id, RecordKind.DELIVERY), (PLATFORM, RecordKind.DELIVERY_WATCH)):
        try:
            found.append((await stage.stores.records.get(owner, kind, delivery_id)).kind)
        except NotFound:
            continue
    return found


async def listed(stage: Stage, endpoint: WebhookEndpoint, tenant_id: TenantId = ACME) -> int:
    """How many deliveries the endpoint's list shows."""
    index = endpoint_index(endpoint.endpoint_id)
    return len(await stage.stores.records.page(tenant_id, RecordKind.DELIVERY, index, limit=100))


@pytest.mark.parametrize("status", [FAILED, DELIVERED, DeliveryStatus.CANCELLED])
async def test_a_delivery_that_is_over_ends_31_days_after_its_last_attempt(
    stage: Stage, status: DeliveryStatus
) -> None:
    endpoint = await stage.create()
    delivery = await deliver(stage, endpoint, status=status, last_days=2)

    early = await sweep(stage, 32.99)
    before = await find(stage, delivery.delivery_id)
    late = await sweep(stage, 33)

    assert (early, before) == (0, [RecordKind.DELIVERY, RecordKind.DELIVERY_WATCH])
    assert (late, await find(stage, delivery.delivery_id), await listed(stage, endpoint)) == (1, [], 0)
    assert await sweep(stage, 33) == 0


async def test_a_delivery_that_is_pending_does_not_end(stage: Stage) -> None:
    delivery = await deliver(stage, await stage.create(), status=PENDING)

    assert await sweep(stage, 400) == 0
    assert len(await find(stage, delivery.delivery_id)) == 2


async def test_deliveries_to_deleted_and_inactive_endpoints_of_every_tenant_and_mode_end(
    stage: Stage,
) -> None:
    deleted, inactive, test_mode = (
        await stage.create(),
        await stage.create(),
        await stage.create(livemode=False),
    )
    theirs = await stage.create(tenant_id=GLOBEX)
    made = [await deliver(stage, one) for one in (deleted, inactive, test_mode)]
    their = await deliver(stage, theirs, tenant_id=GLOBEX)
    await stage.endpoints.delete(ACME, deleted.endpoint_id, BOTH, ACTOR)
    await stage.change(inactive, active=False)

    assert await sweep(stage, 32) == 4
    assert [await find(stage, one.delivery_id) for one in made] == [[], [], []]
    assert await find(stage, their.delivery_id, GLOBEX) == []


async def test_a_sweep_is_bounded_and_the_next_continues(stage: Stage) -> None:
    first, second = await stage.create(), await stage.create()
    for number in range(5):
        await deliver(stage, first, str(number))
    await deliver(stage, first, "pending", status=PENDING)
    await deliver(stage, second)
    pace = RemovalPace(page=2, most=3)

    removed = [await sweep(stage, 32, pace) for _ in range(3)]

    assert removed == [3, 3, 0]
    assert (await listed(stage, first), await listed(stage, second)) == (1, 0)


async def test_the_audit_log_is_as_before(stage: Stage) -> None:
    endpoint = await stage.create()
    delivery = await deliver(stage, endpoint)
    await stage.deliveries.replay(ACME, delivery.delivery_id, BOTH, ACTOR)
    before = await stage.stores.audit_log.page(ACME, AuditFilter(), limit=100)
    await deliver(stage, endpoint, "other")

    assert await sweep(stage, 32) == 1
    assert await stage.stores.audit_log.page(ACME, AuditFilter(), limit=100) == before


async def test_a_delivery_can_be_replayed_for_30_days_and_not_while_it_is_removed(stage: Stage) -> None:
    endpoint = await stage.create()
    first, second = await deliver(stage, endpoint), await deliver(stage, endpoint, "second")

    stage.now = NOW + 30 * DAY
    replayed = await stage.deliveries.replay(ACME, first.delivery_id, BOTH, ACTOR)
    stage.now = NOW + 30.5 * DAY
    with pytest.raises(NotFound):
        await stage.deliveries.replay(ACME, second.delivery_id, BOTH, ACTOR)

    assert replayed.status is PENDING
    assert await sweep(stage, 32) == 1
    assert len(await find(stage, first.delivery_id)) == 2


@pytest.mark.parametrize(("days", "begun"), [(30, 1), (30.5, 0)])
async def test_an_old_event_read_again_begins_no_delivery(stage: Stage, days: float, begun: int) -> None:
    endpoint = await stage.create()
    event = build_decision_event(timestamp=stage.now)
    now = event.timestamp + timedelta(days=days)
    written: list[Outgoing] = []

    async def write(*records: Outgoing) -> None:
        written.extend(records)

    fan_out = FanOut(stage.stores.records, stage.stores.journal, write, lambda: now)
    await fan_out.deliver(event, [await stage.stored(endpoint)])

    assert (len(written), await listed(stage, endpoint)) == (begun, begun)


@pytest.mark.parametrize(("days", "begun"), [(30, 1), (30.5, 0)])
async def test_a_replay_that_waited_too_long_begins_no_delivery(days: float, begun: int) -> None:
    async with open_stage() as webhooks:
        endpoint = await webhooks.register("http://127.0.0.1:9/")
        event = await webhooks.happen()
        command = ReplayEvents(
            tenant_id=ACME,
            endpoint_id=endpoint.endpoint.endpoint_id,
            since=event.timestamp,
            until=event.timestamp + DAY,
            event_types=(ANY_TYPE,),
        )
        webhooks.passes(days=days)
        await DeliverAgain(webhooks.stores, webhooks.log.write, webhooks.clock)(command)

        assert len(await webhooks.deliveries(endpoint)) == begun


class Cut:
    """Ends a sweep at the nth call of any port it stands before, before or after the work was done."""

    def __init__(self, port: Any, calls: list[str], nth: int, *, after: bool) -> None:
        self._port, self._calls, self._nth, self._after = port, calls, nth, after

    def __getattr__(self, name: str) -> Any:
        genuine = getattr(self._port, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            self._calls.append(name)
            last = len(self._calls) >= self._nth
            if last and not self._after:
                raise StoreUnavailable("cut short")
            answer = await genuine(*args, **kwargs)
            if last:
                raise StoreUnavailable("cut short")
            return answer

        return call


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_sweep_that_was_cut_short_anywhere_is_finished_by_the_next(
    stage: Stage, *, after: bool
) -> None:
    endpoint = await stage.create()
    nth, whole = 0, False
    while not whole:
        nth += 1
        made = [await deliver(stage, endpoint, f"{nth}-{one}") for one in range(2)]
        calls: list[str] = []
        cut = replace(
            stage.stores,
            records=Cut(stage.stores.records, calls, nth, after=after),
            removal=Cut(stage.stores.removal, calls, nth, after=after),
        )
        try:
            await sweep(stage, 32, stores=cut)
        except StoreUnavailable:
            await sweep(stage, 32)
        else:
            whole = True
        assert [await find(stage, one.delivery_id) for one in made] == [[], []]
        assert await listed(stage, endpoint) == 0

    assert nth >= 6


async def test_the_responsible_process_removes_and_tries_again_when_the_store_was_away(stage: Stage) -> None:
    endpoint = await stage.create()
    await deliver(stage, endpoint)
    breaking = Breaking(stage.stores.removal, "remove", StoreUnavailable("away"))
    removal = DeliveryRemoval(replace(stage.stores, removal=breaking), lambda: NOW + 32 * DAY)
    answers = iter([False, True, True])
    over = asyncio.Event()

    def is_responsible() -> bool:
        answer = next(answers, None)
        if answer is None:
            over.set()
        return bool(answer)

    async with removing_records({"deliveries": removal}, is_responsible, every_s=0), asyncio.timeout(60):
        await over.wait()

    assert (breaking.broke, await listed(stage, endpoint)) == (True, 0)


async def test_a_process_sweeps_soon_after_it_became_responsible(stage: Stage) -> None:
    """One that just started is not yet; the next sweep after that would be ten minutes later."""
    endpoint = await stage.create()
    await deliver(stage, endpoint)
    removal = DeliveryRemoval(stage.stores, lambda: NOW + 32 * DAY)
    answers = iter([False])

    async with (
        removing_records({"deliveries": removal}, lambda: next(answers, True)),
        asyncio.timeout(60),
    ):
        while await listed(stage, endpoint):  # noqa: ASYNC110 - of a task in the background
            await asyncio.sleep(0.1)


async def test_a_process_that_is_not_responsible_removes_nothing(stage: Stage) -> None:
    endpoint = await stage.create()
    await deliver(stage, endpoint)
    removal = DeliveryRemoval(stage.stores, lambda: NOW + 32 * DAY)
    asked = 0
    over = asyncio.Event()

    def is_responsible() -> bool:
        nonlocal asked
        asked += 1
        if asked == 3:
            over.set()
        return False

    async with removing_records({"deliveries": removal}, is_responsible, every_s=0), asyncio.timeout(60):
        await over.wait()

    assert await listed(stage, endpoint) == 1


class Counted:
    """A removal with so much left, in parts of a sweep each."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.over = asyncio.Event()

    async def sweep(self) -> int:
        """Remove a part."""
        removed = min(self.left, MOST_REMOVED)
        self.left -= removed
        if not self.left:
            self.over.set()
        return removed


async def test_what_one_sweep_could_not_remove_is_removed_at_once() -> None:
    """The next sweep would be an hour later."""
    removal = Counted(2 * MOST_REMOVED + 1)

    async with removing_records({"records": removal}, lambda: True, every_s=3_600), asyncio.timeout(60):
        await removal.over.wait()

    assert removal.left == 0
