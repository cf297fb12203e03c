"""Whether the chain of the audit log holds, asked over HTTP by its own tenant."""

import asyncio

from schemas.audit import SealAudit
from schemas.ids import TenantId
from streams.audit.handler import SealChain
from tests.builders import ACME, GLOBEX
from tests.http.support import FOREIGN, LIVE, Front
from tests.http.test_audit import build_row, write

PATH = "/v1/audit/chain"


async def seal(front: Front, tenant_id: TenantId = ACME) -> None:
    """Seal every row of a tenant."""
    chain = SealChain(front.stores.audit_log)
    await chain(SealAudit(tenant_id=tenant_id))


async def test_a_chain_that_holds_is_intact_and_has_a_head(front: Front) -> None:
    await write(front, [build_row(number) for number in range(5)])
    await seal(front)
    await write(front, [build_row(5)])

    answer = await front.ask("GET", PATH, LIVE)

    head = await front.stores.audit_log.head(ACME)
    assert head is not None
    assert (answer.status, answer.json) == (200, {
        "intact": True, "rows": 5, "waiting": 1, "fault": None, "position": None, "event_id": None,
        "head": f"{ACME}:5:{head.hash}",
    })  # fmt: skip


async def test_the_first_row_that_was_edited_is_named(front: Front) -> None:
    rows = [build_row(number) for number in range(5)]
    await write(front, rows)
    await write(front, rows, GLOBEX)
    await seal(front)
    await seal(front, GLOBEX)
    front.shelves.audit[ACME][rows[2].event_id] = rows[2].model_copy(update={"detail": "Nothing happened."})

    own, other = await front.ask("GET", PATH), await front.ask("GET", PATH, FOREIGN)

    found = {"intact": False, "fault": "edited", "position": 3, "event_id": rows[2].event_id, "rows": 2}
    assert {name: own.json[name] for name in found} == found
    assert (other.json["intact"], other.json["rows"]) == (True, 5)


async def test_one_walk_at_a_time_and_each_is_answered(front: Front) -> None:
    await write(front, [build_row(number) for number in range(3)])
    await seal(front)

    answers = await asyncio.gather(*(front.ask("GET", PATH) for _ in range(5)))

    assert {(one.status, one.json["rows"]) for one in answers} == {(200, 3)}
