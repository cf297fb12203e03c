"""The console's audit log: its filters, its export, and the walk along its chain."""

import csv
import io

import pytest

from schemas.enums import ActorType
from schemas.people import Role
from tests.builders import ACME
from tests.http.console import HTML, enter, open_page
from tests.http.support import Front
from tests.http.test_audit import build_row, seal, write

PATH = "/console/audit"
TEST_MODE = f"{PATH}?livemode=false"
CANARY = '<img src=x onerror="alert(1)">'


async def test_a_row_is_shown_whole_and_as_text(front: Front) -> None:
    who = await enter(front, Role.AUDITOR)
    row = build_row(1, subject_id=CANARY, actor_id=CANARY, correlation_id=CANARY, decision_id=CANARY,
                    detail=CANARY, context={"ip": CANARY, "changes": {CANARY: {"to": CANARY}}})  # fmt: skip
    await write(front, [row])
    await seal(front)

    page = await open_page(who, TEST_MODE)

    body = page.body.decode()
    assert (page.status, body.count("data-row=")) == (200, 1)
    assert "<img src=x" not in body
    assert body.count("&lt;img src=x onerror") >= 8
    assert row.event_id in body
    assert "</svg>1</span>" in body  # its place in the chain


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", 4), ("action=case.", 1), ("action=case.opened", 1), ("action=&actor_id=", 4),
        ("actor_id=key-0", 2), ("subject_id=customer-1", 1),
        ("actor_type=SYSTEM", 1), ("correlation_id=req-2", 1),
        ("from=2026-01-31&to=2026-01-31", 0), ("from=2000-01-01&to=2999-12-31", 4),
        ("limit=1", 4),
    ],
)  # fmt: skip
async def test_filters_narrow_the_log(front: Front, query: str, shown: int) -> None:
    who = await enter(front)
    rows = [build_row(number) for number in range(3)]
    await write(front, [*rows, build_row(3, action="case.opened", actor_type=ActorType.SYSTEM)])

    page = await open_page(who, f"{TEST_MODE}&{query}")

    assert page.status == 200, page.body
    assert page.body.decode().count("data-row=") == shown


async def test_a_row_of_nobody_and_of_no_request_is_shown(front: Front) -> None:
    who = await enter(front)
    bare: dict[str, object] = {"actor_id": None, "correlation_id": None, "decision_id": None, "context": {}}
    await write(front, [build_row(1, actor_type=ActorType.SYSTEM, **bare)])

    page = await open_page(who, TEST_MODE)

    assert (page.status, page.body.decode().count("data-row=")) == (200, 1)


async def test_the_filters_of_a_day_reach_from_its_first_to_its_last_moment(front: Front) -> None:
    who = await enter(front)
    await write(front, [build_row(0)])
    day = build_row(0).created_at.date().isoformat()

    page = await open_page(who, f"{TEST_MODE}&from={day}&to={day}")

    assert page.body.decode().count("data-row=") == 1


async def test_older_rows_follow_with_the_same_filters(front: Front) -> None:
    who = await enter(front)
    await write(front, [build_row(number, actor_id="key-1") for number in range(55)])

    first = (await open_page(who, f"{TEST_MODE}&actor_id=key-1")).body.decode()
    link = first.partition('<div class="under">')[2].partition('href="')[2].partition('"')[0]
    second = (await open_page(who, link.replace("&amp;", "&"))).body.decode()

    assert (first.count("data-row="), second.count("data-row=")) == (50, 5)
    assert "Show older rows" not in second


@pytest.mark.parametrize(
    "query", ["action=x", "from=yesterday", "from=2026-13-01", "actor_type=GOD", "cursor=x"]
)
async def test_a_filter_that_is_malformed_is_refused_as_a_page(front: Front, query: str) -> None:
    page = await open_page(await enter(front), f"{PATH}?{query}")

    assert (page.status in {400, 422}, page.headers["Content-Type"]) == (True, HTML)


async def test_the_export_has_the_chosen_rows_and_is_audited(front: Front) -> None:
    who = await enter(front, Role.AUDITOR)
    await write(front, [build_row(number) for number in range(4)])

    answer = await open_page(who, f"{PATH}/export?livemode=false&actor_id=key-1")
    head = await who.ask("HEAD", f"{PATH}/export?livemode=false")

    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/csv; charset=utf-8")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="audit.csv"'
    _, *exported = csv.reader(io.StringIO(answer.body.decode()))
    assert [row[3] for row in exported] == ["key-1", "key-1"]
    assert (head.status, head.body) == (200, b"")
    exports = await who.ask("GET", "/v1/audit?action=audit.exported")
    assert [one["actor_type"] for one in exports.json["events"]] == ["REVIEWER"]


async def test_a_chain_is_shown_as_intact_until_a_row_was_edited(front: Front) -> None:
    who = await enter(front, Role.AUDITOR)
    rows = [build_row(number) for number in range(3)]
    await write(front, rows)
    await seal(front)

    good = await open_page(who, f"{PATH}/chain")
    front.shelves.audit[ACME][rows[1].event_id] = rows[1].model_copy(update={"actor_id": "nobody"})
    bad = await open_page(who, f"{PATH}/chain")

    assert (good.status, b'data-intact="true"' in good.body) == (200, True)
    assert (bad.status, b'data-intact="false"' in bad.body) == (200, True)
    assert b"A row was edited." in bad.body
    assert rows[1].event_id.encode() in bad.body
