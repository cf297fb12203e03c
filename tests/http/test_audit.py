"""The audit log is read by its own tenant and mode, page by page, filtered, or as CSV; its chain holds."""

import asyncio
import csv
import io
from collections.abc import Sequence
from datetime import timedelta

import aiohttp
import pytest

from app.http.cursors import Cursors
from app.http.headers import preferred
from app.http.routes.audit import cells, csv_lines
from schemas.audit import AuditAction, AuditEvent, AuditFilter, SealAudit
from schemas.base import rfc3339
from schemas.enums import ActorType
from schemas.ids import AuditEventId, TenantId, derive_id
from schemas.problems import StoreUnavailable
from streams.audit.handler import SealChain
from streams.ports.records import Change, Position, Record, RecordKind
from tests.builders import ACME, GLOBEX, NOW
from tests.http.support import FOREIGN, LIVE, Front

PATH = "/v1/audit"
CHAIN = "/v1/audit/chain"


def build_row(number: int, **changes: object) -> AuditEvent:
    """A row of test data; higher numbers are newer."""
    values: dict[str, object] = {
        "event_id": AuditEventId(derive_id("aud", str(number))),
        "action": AuditAction.VERIFICATION_EVALUATED,
        "actor_type": ActorType.API_KEY,
        "actor_id": f"key-{number % 2}",
        "subject_id": f"customer-{number % 3}",
        "correlation_id": f"req-{number}",
        "decision_id": f"dec-{number}",
        "context": {"request_id": f"req-{number}"},
        "detail": "A verification was evaluated.",
        "created_at": NOW + timedelta(seconds=number),
        "livemode": False,
    }
    return AuditEvent.model_validate(values | changes)


async def write(front: Front, rows: Sequence[AuditEvent], tenant: TenantId = ACME) -> None:
    """Commit rows to the log."""
    record = Record(tenant, RecordKind.VERIFICATION, derive_id("ver", rows[0].event_id), b"{}", NOW)
    await front.stores.journal.commit(Change(tenant, (record,), audit=tuple(rows)))


@pytest.fixture
async def rows(front: Front) -> list[AuditEvent]:
    """Twelve rows in the log, newest first; one is a case's."""
    made = [build_row(number) for number in range(11)]
    made.append(build_row(11, action=AuditAction.CASE_OPENED, actor_type=ActorType.SYSTEM, actor_id=None))
    await write(front, made)
    return made[::-1]


async def walk(front: Front, query: str = "") -> list[str]:
    """Every id of the log, page after page."""
    found: list[str] = []
    cursor = ""
    while True:
        page = (await front.ask("GET", f"{PATH}?limit=5{query}{cursor}")).json
        found += [one["event_id"] for one in page["events"]]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


async def test_every_row_is_met_once_newest_first(front: Front, rows: list[AuditEvent]) -> None:
    assert await walk(front) == [row.event_id for row in rows]


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("action=case.opened", [11]),
        ("action=case.", [11]),
        ("action=flow.", []),
        ("action=flow.created", []),
        ("actor_type=SYSTEM", [11]),
        ("actor_id=key-1", [9, 7, 5, 3, 1]),
        ("subject_id=customer-2", [11, 8, 5, 2]),
        ("decision_id=dec-4", [4]),
        ("correlation_id=req-4", [4]),
        (f"from={rfc3339(NOW + timedelta(seconds=9))}", [11, 10, 9]),
        (f"to={rfc3339(NOW + timedelta(seconds=2))}", [1, 0]),
        (f"from={rfc3339(NOW)}&to={rfc3339(NOW + timedelta(seconds=1))}", [0]),
        ("action=verification.&actor_id=key-0&subject_id=customer-0", [6, 0]),
    ],
)
async def test_filters_choose(front: Front, rows: list[AuditEvent], query: str, numbers: list[int]) -> None:
    assert await walk(front, f"&{query}") == [rows[11 - number].event_id for number in numbers]


@pytest.mark.parametrize("key", [FOREIGN, LIVE])
async def test_another_tenant_or_mode_reads_another_log(
    front: Front, rows: list[AuditEvent], key: str
) -> None:
    assert rows
    assert (await front.ask("GET", PATH, key)).json == {"events": [], "next_cursor": None}


@pytest.mark.parametrize("query", ["&subject_id=customer-1", "&action=case.", f"&from={rfc3339(NOW)}"])
async def test_a_cursor_is_bound_to_its_filters(front: Front, rows: list[AuditEvent], query: str) -> None:
    assert rows
    cursor = (await front.ask("GET", f"{PATH}?limit=1")).json["next_cursor"]
    response = await front.ask("GET", f"{PATH}?cursor={cursor}{query}")

    assert (response.status, response.code) == (400, "CURSOR_INVALID")


async def test_the_default_page_has_fifty_rows(front: Front) -> None:
    await write(front, [build_row(number) for number in range(60)])

    assert len((await front.ask("GET", PATH)).json["events"]) == 50


async def exported(front: Front, query: str = "", accept: str = "text/csv") -> list[dict[str, str]]:
    """The rows of an export."""
    response = await front.ask("GET", f"{PATH}?{query}", headers={"Accept": accept})
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(response.body.decode())))


async def test_an_export_has_every_row(front: Front) -> None:
    await write(front, [build_row(number) for number in range(450)])

    assert [row["correlation_id"] for row in await exported(front)] == [
        f"req-{n}" for n in range(449, -1, -1)
    ]


async def test_an_export_obeys_filters_limit_and_cursor(front: Front, rows: list[AuditEvent]) -> None:
    cursor = (await front.ask("GET", f"{PATH}?limit=1&actor_id=key-0")).json["next_cursor"]
    found = await exported(front, f"actor_id=key-0&limit=2&cursor={cursor}")

    assert [row["event_id"] for row in found] == [rows[n].event_id for n in (3, 5)]


async def test_an_export_of_nothing_has_a_header(front: Front) -> None:
    assert await exported(front) == []


async def test_an_export_is_saved_not_shown(front: Front) -> None:
    response = await front.ask("GET", PATH, headers={"Accept": "text/csv"})

    assert response.headers["Content-Disposition"].startswith("attachment")
    assert (response.headers["X-Content-Type-Options"], response.headers["Cache-Control"]) == (
        "nosniff",
        "no-store",
    )


async def test_the_head_of_an_export_has_no_body(front: Front, rows: list[AuditEvent]) -> None:
    assert rows
    response = await front.ask("HEAD", PATH, headers={"Accept": "text/csv"})

    assert (response.status, response.body) == (200, b"")
    assert (await front.ask("GET", "/livez")).status == 200


async def test_an_export_refuses_like_a_page(front: Front) -> None:
    response = await front.ask("GET", f"{PATH}?actor_type=X", headers={"Accept": "text/csv"})

    assert (response.status, response.code) == (422, "FILTER_INVALID")


@pytest.mark.parametrize("subject", ["=cmd()", "+1", "-1", "@sum", "\tx"])
def test_no_cell_runs_as_a_formula(subject: str) -> None:
    line = csv_lines([cells(build_row(1, subject_id=subject))]).decode()

    assert next(csv.reader([line]))[4] == f"'{subject}"


class FailingLog:
    """Fails at the second page."""

    def __init__(self, rows: list[AuditEvent]) -> None:
        self._rows = rows

    async def page(
        self, tenant_id: TenantId, chosen: AuditFilter, *, limit: int, before: Position | None = None
    ) -> Sequence[AuditEvent]:
        """Give the first page, then fail."""
        assert (tenant_id, chosen.livemode) == (ACME, False)
        if before is not None:
            raise StoreUnavailable
        return self._rows[:limit]


async def test_an_export_that_fails_midway_is_cut_short_visibly(front: Front) -> None:
    object.__setattr__(front.ports.stores, "audit_log", FailingLog([build_row(n) for n in range(250)]))

    with pytest.raises(aiohttp.ClientPayloadError):
        await front.ask("GET", PATH, headers={"Accept": "text/csv"})


async def test_a_log_that_cannot_be_read_is_500(front: Front) -> None:
    object.__setattr__(front.ports.stores, "audit_log", FailingLog([]))
    first = Position(NOW, "aud_x")
    scope = {"list": PATH, "tenant": ACME, "filter": AuditFilter(livemode=False).model_dump_json()}
    cursor = Cursors(front.settings.cursor_key).write(first, scope)
    response = await front.ask("GET", f"{PATH}?cursor={cursor}")

    assert (response.status, response.code) == (500, "STORE_FAILED")


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("text/csv", "text/csv"),
        ("TEXT/CSV", "text/csv"),
        ("text/*", "text/csv"),
        ("application/json", "application/json"),
        ("*/*", "application/json"),
        ("", "application/json"),
        ("image/png", "application/json"),
        ("text/csv;q=0.5, application/json", "application/json"),
        ("text/csv, application/json;q=0.9", "text/csv"),
        ("text/csv;q=0, */*", "application/json"),
        ("text/csv;q=x", "application/json"),
    ],
)
def test_the_best_liked_type_is_answered(accept: str, expected: str) -> None:
    assert preferred(accept, ("application/json", "text/csv")) == expected


async def seal(front: Front, tenant_id: TenantId = ACME) -> None:
    """Seal every row of a tenant."""
    chain = SealChain(front.stores.audit_log, front.settings.audit_chain_key)
    await chain(SealAudit(tenant_id=tenant_id))


async def test_a_chain_that_holds_is_intact_and_has_a_head(front: Front) -> None:
    await write(front, [build_row(number) for number in range(5)])
    await seal(front)
    await write(front, [build_row(5)])

    answer = await front.ask("GET", CHAIN, LIVE)

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

    own, other = await front.ask("GET", CHAIN), await front.ask("GET", CHAIN, FOREIGN)

    found = {"intact": False, "fault": "edited", "position": 3, "event_id": rows[2].event_id, "rows": 2}
    assert {name: own.json[name] for name in found} == found
    assert (other.json["intact"], other.json["rows"]) == (True, 5)


async def test_one_walk_at_a_time_and_each_is_answered(front: Front) -> None:
    await write(front, [build_row(number) for number in range(3)])
    await seal(front)

    answers = await asyncio.gather(*(front.ask("GET", CHAIN) for _ in range(5)))

    assert {(one.status, one.json["rows"]) for one in answers} == {(200, 3)}
