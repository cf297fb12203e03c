"""What every audit log promises."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from itertools import product

import pytest

from schemas.audit import AuditAction, AuditEvent, AuditFilter, ChainLink
from schemas.enums import ActorType
from schemas.ids import PLATFORM, AuditEventId, TenantId, derive_id
from streams.audit.rules import link
from streams.ports.errors import Damaged
from streams.ports.records import Change, Position
from streams.ports.stores import Stores
from tests.builders import ACME, GLOBEX, NOW, build_audit_event, build_record

KEY = b"chain key of a test"


def numbered(n: int, **changes: object) -> AuditEvent:
    """A row of its own, written `n` seconds after the first."""
    event_id = AuditEventId(derive_id("aud", str(n)))
    return build_audit_event(**{"event_id": event_id, "created_at": NOW + timedelta(seconds=n)} | changes)


async def write(stores: Stores, *rows: AuditEvent, tenant_id: TenantId = ACME) -> None:
    """Commit each row by itself."""
    for row in rows:
        record = build_record(tenant_id=tenant_id, id=f"of {row.event_id}")
        await stores.journal.commit(Change(tenant_id, (record,), (row,)))


async def write_batch(stores: Stores, rows: Sequence[AuditEvent]) -> None:
    """Commit all rows in one change, where their order does not matter."""
    await stores.journal.commit(Change(ACME, (build_record(),), tuple(rows)))


async def page(stores: Stores, chosen: AuditFilter | None = None, limit: int = 500) -> list[AuditEvent]:
    """ACME's rows."""
    return list(await stores.audit_log.page(ACME, chosen or AuditFilter(), limit=limit))


def chain(rows: Sequence[AuditEvent], head: ChainLink | None = None) -> list[tuple[AuditEventId, ChainLink]]:
    """Links that join the rows behind the head."""
    links = []
    for row in rows:
        head = link(head, row, KEY)
        links.append((row.event_id, head))
    return links


async def test_the_heads_are_those_of_every_chain(stores: Stores) -> None:
    await write(stores, numbered(1), numbered(2))
    await write(stores, numbered(3), tenant_id=GLOBEX)
    sealed = {ACME: chain([numbered(1), numbered(2)]), GLOBEX: chain([numbered(3)])}
    for tenant_id, links in sealed.items():
        await stores.audit_log.seal(tenant_id, links)

    heads = {head.tenant_id: (head.position, head.hash) for head in await stores.audit_log.heads()}

    assert heads == {
        tenant_id: (links[-1][1].position, links[-1][1].hash) for tenant_id, links in sealed.items()
    }


async def test_a_log_without_chains_has_no_heads(stores: Stores) -> None:
    await write(stores, numbered(1))

    assert await stores.audit_log.heads() == []


async def test_a_row_is_read_as_it_was_written(stores: Stores) -> None:
    row = build_audit_event(
        context={"request_id": "r", "changes": {"name": ["a", "é"], "n": 1.5, "empty": {}}},
        decision_id="dec_1",
        livemode=False,
    )

    await write(stores, row)

    assert await page(stores) == [row]


async def test_a_link_that_nobody_sealed_is_not_shown(stores: Stores) -> None:
    await write(stores, numbered(1, context={"request_id": "r", "chain": {"position": 1}}))

    assert (await page(stores))[0].context == {"request_id": "r"}


async def test_rows_come_newest_first(stores: Stores) -> None:
    await write(stores, numbered(1), numbered(3), numbered(2))

    assert await page(stores) == [numbered(3), numbered(2), numbered(1)]


async def test_rows_of_one_moment_come_by_id(stores: Stores) -> None:
    rows = [numbered(n, created_at=NOW) for n in range(9)]
    await write(stores, *rows)

    assert await page(stores) == sorted(rows, key=lambda row: row.event_id, reverse=True)


async def test_another_tenants_rows_are_invisible(stores: Stores) -> None:
    await write(stores, numbered(1), tenant_id=GLOBEX)

    assert await page(stores) == []


VARIED = [
    numbered(
        n,
        action=action,
        subject_id=f"customer-{n % 3}",
        decision_id=f"dec_{n % 4}" if n % 2 else None,
        correlation_id=f"req-{n % 5}" if n % 3 else None,
        actor_id=f"key_{n % 2}" if n % 4 else None,
        actor_type=(ActorType.API_KEY, ActorType.SYSTEM)[n % 2],
        livemode=n % 3 > 0,
    )
    for n, (action, _) in enumerate(product(AuditAction, range(3)))
]


@pytest.mark.parametrize(
    "chosen",
    [
        AuditFilter(action="verification.evaluated"),
        AuditFilter(action="api_key."),
        AuditFilter(action="api_key.", livemode=True),
        AuditFilter(action="no_such."),
        AuditFilter(action="api_key"),
        AuditFilter(actor_type=ActorType.SYSTEM),
        AuditFilter(actor_type=ActorType.SYSTEM, livemode=False),
        AuditFilter(actor_id="key_1"),
        AuditFilter(subject_id="customer-2"),
        AuditFilter(subject_id="customer-2", livemode=True, actor_type=ActorType.API_KEY),
        AuditFilter(decision_id="dec_1"),
        AuditFilter(correlation_id="req-4", decision_id="dec_3"),
        AuditFilter(livemode=True),
        AuditFilter(livemode=False),
        AuditFilter(since=NOW + timedelta(seconds=5)),
        AuditFilter(until=NOW + timedelta(seconds=5)),
        AuditFilter(since=NOW + timedelta(seconds=5), until=NOW + timedelta(seconds=9), livemode=True),
        AuditFilter(action="tenant.", since=NOW + timedelta(seconds=2), subject_id="customer-1"),
    ],
    ids=lambda chosen: chosen.model_dump_json(exclude_none=True),
)
async def test_a_filter_finds_exactly_its_rows(stores: Stores, chosen: AuditFilter) -> None:
    await write_batch(stores, VARIED)
    asked = chosen.model_dump(exclude_none=True, exclude={"action", "since", "until"})

    def fits(row: AuditEvent) -> bool:
        action = chosen.action or row.action
        named = row.action == action or (action.endswith(".") and row.action.startswith(action))
        early = chosen.since is not None and row.created_at < chosen.since
        late = chosen.until is not None and row.created_at >= chosen.until
        same = all(getattr(row, name) == value for name, value in asked.items())
        return named and same and not early and not late

    assert await page(stores, chosen) == [row for row in reversed(VARIED) if fits(row)]


async def walk(stores: Stores, chosen: AuditFilter, limit: int) -> list[AuditEvent]:
    """The rows of every page in turn."""
    found: list[AuditEvent] = []
    before: Position | None = None
    while rows := await stores.audit_log.page(ACME, chosen, limit=limit, before=before):
        assert len(rows) <= limit
        found += rows
        before = Position(rows[-1].created_at, rows[-1].event_id)
    return found


@pytest.mark.parametrize("limit", [1, 4, 200])
@pytest.mark.parametrize(
    "chosen", [AuditFilter(), AuditFilter(action="case."), AuditFilter(until=NOW + timedelta(seconds=7))]
)
async def test_walking_the_pages_meets_every_row_once_in_order(
    stores: Stores, chosen: AuditFilter, limit: int
) -> None:
    await write_batch(stores, VARIED)

    assert await walk(stores, chosen, limit) == await page(stores, chosen)


async def test_walking_while_writers_append_meets_what_was_there_once_in_order(stores: Stores) -> None:
    there = [numbered(n, created_at=NOW + timedelta(seconds=n // 3)) for n in range(30)]
    await write(stores, *there)
    new = [numbered(n) for n in range(100, 160)]

    walked, *_ = await asyncio.gather(
        walk(stores, AuditFilter(), 4), write(stores, *new[:30]), write(stores, *new[30:])
    )

    order = [(row.created_at, row.event_id) for row in walked]
    assert order == sorted(set(order), reverse=True)
    assert [row for row in walked if row in there] == sorted(
        there, key=lambda row: (row.created_at, row.event_id), reverse=True
    )


async def test_new_rows_wait_in_the_order_of_their_commits(stores: Stores) -> None:
    await write(stores, numbered(3), numbered(1), numbered(2))

    assert await stores.audit_log.unsealed(ACME, 9) == [numbered(3), numbered(1), numbered(2)]


async def test_as_many_rows_wait_as_are_asked_for(stores: Stores) -> None:
    await write(stores, numbered(1), numbered(2), numbered(3))

    assert await stores.audit_log.unsealed(ACME, 2) == [numbered(1), numbered(2)]


async def test_tenants_with_waiting_rows_are_known(stores: Stores) -> None:
    await write(stores, numbered(1))
    await write(stores, numbered(2), tenant_id=PLATFORM)
    await write(stores, numbered(3), tenant_id=GLOBEX)
    await stores.audit_log.seal(GLOBEX, chain([numbered(3)]))

    assert set(await stores.audit_log.unsealed_tenants()) == {ACME, PLATFORM}


async def test_a_chain_begins_without_a_head(stores: Stores) -> None:
    assert await stores.audit_log.head(ACME) is None


async def test_the_head_is_the_last_link_sealed(stores: Stores) -> None:
    await write(stores, numbered(1), numbered(2))
    links = chain([numbered(1), numbered(2)])

    assert await stores.audit_log.seal(ACME, links)

    assert await stores.audit_log.head(ACME) == links[-1][1]


async def test_sealed_rows_wait_no_more(stores: Stores) -> None:
    await write(stores, numbered(1), numbered(2))

    await stores.audit_log.seal(ACME, chain([numbered(1)]))

    assert await stores.audit_log.unsealed(ACME, 9) == [numbered(2)]


async def test_a_sealed_row_shows_its_link(stores: Stores) -> None:
    await write(stores, numbered(1), numbered(2))
    links = chain([numbered(1)])

    await stores.audit_log.seal(ACME, links)

    newer, older = await page(stores)
    assert older.context == {**numbered(1).context, "chain": links[0][1].model_dump()}
    assert newer == numbered(2)


async def test_sealing_goes_on_from_the_head(stores: Stores) -> None:
    await write(stores, numbered(1), numbered(2), numbered(3))
    links = chain([numbered(1), numbered(2), numbered(3)])

    assert await stores.audit_log.seal(ACME, links[:1])
    assert await stores.audit_log.seal(ACME, links[1:])

    walked = await stores.audit_log.walk(ACME, 0, 9)
    assert [(row.event, row.link) for row in walked] == [
        (numbered(n), own) for n, (_, own) in zip((1, 2, 3), links, strict=True)
    ]


async def test_links_that_do_not_follow_the_head_are_not_sealed(stores: Stores) -> None:
    await write(stores, numbered(1), numbered(2))
    await stores.audit_log.seal(ACME, chain([numbered(1)]))

    assert not await stores.audit_log.seal(ACME, chain([numbered(2)]))

    assert await stores.audit_log.unsealed(ACME, 9) == [numbered(2)]


async def test_of_many_who_seal_the_same_rows_one_succeeds(stores: Stores) -> None:
    await write(stores, numbered(1), numbered(2))
    links = chain([numbered(1), numbered(2)])

    sealed = await asyncio.gather(*(stores.audit_log.seal(ACME, links) for _ in range(10)))

    assert sealed.count(True) == 1


async def test_sealing_nothing_is_fine(stores: Stores) -> None:
    assert await stores.audit_log.seal(ACME, [])


async def test_a_row_is_never_sealed_twice(stores: Stores) -> None:
    await write(stores, numbered(1))
    links = chain([numbered(1)])
    await stores.audit_log.seal(ACME, links)

    with pytest.raises(Damaged):
        await stores.audit_log.seal(ACME, chain([numbered(1)], links[0][1]))


async def test_a_row_that_is_not_in_the_log_is_not_sealed(stores: Stores) -> None:
    await write(stores, numbered(1))

    with pytest.raises(Damaged):
        await stores.audit_log.seal(ACME, chain([numbered(1), numbered(2)]))

    assert await stores.audit_log.head(ACME) is None


async def test_another_tenants_row_is_not_sealed(stores: Stores) -> None:
    await write(stores, numbered(1), tenant_id=GLOBEX)

    with pytest.raises(Damaged):
        await stores.audit_log.seal(ACME, chain([numbered(1)]))


async def test_the_chain_is_walked_from_any_place(stores: Stores) -> None:
    rows = [numbered(n) for n in range(5)]
    await write(stores, *rows)
    await stores.audit_log.seal(ACME, chain(rows))

    walked = await stores.audit_log.walk(ACME, 2, 2)

    assert [(row.link.position, row.event) for row in walked] == [(3, rows[2]), (4, rows[3])]
    assert await stores.audit_log.walk(GLOBEX, 0, 9) == []
