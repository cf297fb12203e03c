"""The reviewers' list of sessions over a real socket (interface 4.7, G33-G35, G69, G78, G92)."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from schemas.enums import DecisionOutcome, FlowType, SessionStatus
from schemas.ids import SessionId, SubjectId, TenantId, derive_id
from schemas.people import Role
from schemas.sessions import VerificationSession
from streams.ports.records import Change
from streams.verification.records import session_record
from tests.builders import ACME, GLOBEX, NOW
from tests.http.json_schema import Schemas
from tests.http.support import TEST, Front, Json, Response, SignedIn, build_body

PATH = "/v1/control/verification-sessions"
FIELDS = (
    "session_id subject_id flow_id flow_revision flow_type status decision risk_level review_status "
    "review_case_id verification_id attempts created_at updated_at expires_at completed_at livemode"
)


def name(n: int) -> SessionId:
    """A session's id."""
    return SessionId(derive_id("vs", str(n)))


async def keep(front: Front, n: int, tenant_id: TenantId = ACME, **changes: Any) -> SessionId:
    """Keep a session created `n` seconds after the first."""
    moment = NOW + timedelta(seconds=n)
    values: dict[str, Any] = {
        "session_id": name(n),
        "subject_id": SubjectId(f"customer-{n}"),
        "flow_type": FlowType.FULL_IDENTITY,
        "status": SessionStatus.CREATED,
        "attempts": 0,
        "created_at": moment,
        "updated_at": moment,
        "livemode": True,
    }
    row = VerificationSession(**values | changes)
    record = session_record(tenant_id, row, row.to_bytes(), "f" * 64)
    await front.stores.journal.commit(Change(tenant_id, (record,)))
    return row.session_id


@pytest.fixture
async def reviewer(front: Front) -> SignedIn:
    """One of ACME's."""
    return await front.sign_in(Role.REVIEWER)


async def ask(reviewer: SignedIn, **query: str) -> Response:
    """Ask for a page."""
    return await reviewer.ask("GET", f"{PATH}?{urlencode(query)}")


async def listed(reviewer: SignedIn, **query: str) -> list[str]:
    """The ids of a page."""
    result = await ask(reviewer, **query)
    assert result.status == 200, result.body
    return [row["session_id"] for row in result.json["sessions"]]


async def walked(reviewer: SignedIn, **query: str) -> list[str]:
    """The ids of every page in turn."""
    found: list[str] = []
    while True:
        page = (await ask(reviewer, **query)).json
        found += [row["session_id"] for row in page["sessions"]]
        if page["next_cursor"] is None:
            return found
        query["cursor"] = page["next_cursor"]


def named(numbers: Iterable[int]) -> list[str]:
    """The ids of sessions."""
    return [name(n) for n in numbers]


async def test_an_api_key_is_refused(front: Front) -> None:
    response = await front.ask("GET", PATH, TEST)

    assert (response.status, response.code) == (403, "API_KEY_NOT_ALLOWED")


async def test_nobody_is_refused(front: Front) -> None:
    assert (await front.ask("GET", PATH, None)).status == 401


async def test_a_role_without_the_permission_is_refused(front: Front) -> None:
    response = await (await front.sign_in(Role.DEVELOPER)).ask("GET", PATH)

    assert (response.status, response.code) == (403, "PERMISSION_DENIED")
    assert "VERIFICATIONS_READ" in response.json["detail"]


async def test_the_second_factor_comes_first(front: Front) -> None:
    response = await (await front.sign_in(Role.REVIEWER, satisfied=False)).ask("GET", PATH)

    assert (response.status, response.code) == (403, "MFA_REQUIRED")


async def test_a_direct_verification_is_listed_with_its_outcome(front: Front, reviewer: SignedIn) -> None:
    made = (await front.submit(build_body("sim:review"))).json
    (row,) = (await ask(reviewer)).json["sessions"]

    assert row["session_id"].startswith("vs_")
    assert [row[field] for field in FIELDS.split()[1:]] == [
        "sim:review", None, None, "FULL_IDENTITY", "REVIEW_REQUIRED", "REVIEW_REQUIRED", made["risk_level"],
        "PENDING", made["review_case_id"], made["verification_id"], 1, made["created_at"], made["created_at"],
        None, made["created_at"], False,
    ]  # fmt: skip


async def test_every_field_is_there_null_when_there_is_nothing(front: Front, reviewer: SignedIn) -> None:
    await keep(front, 1)
    result = await ask(reviewer)

    assert sorted(result.json["sessions"][0]) == sorted(FIELDS.split())


async def test_a_page_is_as_described(front: Front, reviewer: SignedIn) -> None:
    await keep(front, 1)
    await front.submit(build_body("sim:review"))
    document: Json = (await front.ask("GET", "/v1/openapi.json", None)).json
    result = await ask(reviewer, limit="1")
    schema = document["paths"][PATH]["get"]["responses"]["200"]["content"]["application/json"]["schema"]

    assert [*Schemas(document).complaints(result.json, schema)] == []
    assert [*Schemas(document).undeclared(result.json, schema)] == []


async def test_the_newest_come_first_and_every_one_once(front: Front, reviewer: SignedIn) -> None:
    for n in (3, 1, 4, 0, 2):
        await keep(front, n, livemode=n % 2 == 0)

    assert await walked(reviewer, limit="2") == named((4, 3, 2, 1, 0))


async def test_sessions_of_one_moment_are_ordered_by_id(front: Front, reviewer: SignedIn) -> None:
    for n in range(5):
        await keep(front, n, created_at=NOW)

    assert await walked(reviewer, limit="2") == sorted(named(range(5)), reverse=True)


@pytest.mark.parametrize("query", [{}, {"subject": "CUST"}])
async def test_a_page_has_25_rows_unless_more_are_asked_for_and_at_most_100(
    front: Front, reviewer: SignedIn, query: dict[str, str]
) -> None:
    for n in range(101):
        await keep(front, n)

    assert len(await listed(reviewer, **query)) == 25
    assert len(await listed(reviewer, limit="1000", **query)) == 100
    assert (await ask(reviewer, limit="101", **query)).json["next_cursor"] is not None


async def test_limit_nought_is_an_empty_page(front: Front, reviewer: SignedIn) -> None:
    await keep(front, 1)

    for query in ({}, {"session_id": name(1)}, {"subject": "c"}):
        page = (await ask(reviewer, limit="0", **query)).json
        assert page == {"sessions": [], "next_cursor": None}


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("status", "approved"), ("status", ""), ("status", "APPROVED,FAILED"), ("status", "ALLOW"),
        ("decision", "allow"), ("decision", ""), ("decision", "APPROVED"), ("limit", "-1"), ("limit", "x"),
        ("limit", ""), ("livemode", "yes"), ("subject_id", "customer-1"),
    ],
)  # fmt: skip
async def test_a_wrong_filter_is_refused_by_name(reviewer: SignedIn, parameter: str, value: str) -> None:
    result = await ask(reviewer, **{parameter: value})

    assert (result.status, result.code) == (422, "FILTER_INVALID")
    assert [error["parameter"] for error in result.json["errors"]] == [parameter]


async def test_a_filter_given_twice_is_refused(reviewer: SignedIn) -> None:
    response = await reviewer.ask("GET", f"{PATH}?status=APPROVED&status=FAILED")

    assert (response.status, response.code) == (422, "FILTER_INVALID")


@pytest.mark.parametrize("status", SessionStatus)
async def test_a_status_chooses_its_sessions(front: Front, reviewer: SignedIn, status: SessionStatus) -> None:
    for n, given in enumerate(SessionStatus):
        await keep(front, n, status=given)

    assert await listed(reviewer, status=status) == named([[*SessionStatus].index(status)])


MADE_BY = {
    "ALLOW": "APPROVED",
    "WARN": "APPROVED",
    "HOLD": "FAILED",
    "BLOCK": "REJECTED",
    "REVIEW_REQUIRED": "REVIEW_REQUIRED",
}


@pytest.mark.parametrize("decision", DecisionOutcome)
async def test_a_decision_narrows_to_the_statuses_that_produce_it(
    front: Front, reviewer: SignedIn, decision: DecisionOutcome
) -> None:
    for n, given in enumerate(SessionStatus):
        await keep(front, n, status=given)
    made = [n for n, status in enumerate(SessionStatus) if status == MADE_BY.get(decision)]

    assert await listed(reviewer, decision=decision) == named(made)
    for n, status in enumerate(SessionStatus):
        assert await listed(reviewer, decision=decision, status=status) == named({n} & {*made})


SUBJECTS = ("Customer-17", "customer-18", "CUSTOMER@acme.example", "u:42", "sim:approved")


@pytest.mark.parametrize(
    ("fragment", "chosen"),
    [
        ("customer", (2, 1, 0)), ("CUSTOMER-", (1, 0)), ("Mer-17", (0,)), ("17", (0,)), ("@ACME.", (2,)),
        ("u", (3, 2, 1, 0)), ("u:", (3,)), (":", (4, 3)), ("zz", ()), ("customer-177", ()), ("%", ()),
        ("cust mer", ()), ("customer\0", ()), ("é", ()), ("u" * 129, ()), ("u" * 3000, ()),
        ("", (4, 3, 2, 1, 0)), ("*", ()), ('"', ()), ("17 OR 18", ()),
    ],
)  # fmt: skip
async def test_a_fragment_of_the_subject_chooses_in_whatever_case(
    front: Front, reviewer: SignedIn, fragment: str, chosen: tuple[int, ...]
) -> None:
    for n, subject in enumerate(SUBJECTS):
        await keep(front, n, subject_id=subject)

    assert await walked(reviewer, subject=fragment, limit="2") == named(chosen)


async def test_all_filters_intersect(front: Front, reviewer: SignedIn) -> None:
    approved, rejected = SessionStatus.APPROVED, SessionStatus.REJECTED
    await keep(front, 1, status=approved, subject_id="anna-1")
    await keep(front, 2, status=rejected, subject_id="anna-2")
    await keep(front, 3, status=approved, subject_id="bert-3")
    await keep(front, 4, status=approved, subject_id="ANNA-4", livemode=False)

    assert await listed(reviewer, subject="anna", status="APPROVED", decision="WARN") == named((4, 1))
    assert await listed(reviewer, subject="anna", decision="ALLOW", livemode="true") == named((1,))
    assert await listed(reviewer, subject="anna", status="APPROVED", decision="BLOCK") == []


async def test_a_session_id_finds_its_session_wherever_it_stands(front: Front, reviewer: SignedIn) -> None:
    for n in range(30):
        await keep(front, n)
    cursor = (await ask(reviewer)).json["next_cursor"]

    for query in ({}, {"limit": "1"}, {"cursor": cursor}):
        page = (await ask(reviewer, session_id=name(29), **query)).json
        assert ([row["session_id"] for row in page["sessions"]], page["next_cursor"]) == ([name(29)], None)
    assert await listed(reviewer, session_id=name(0)) == [name(0)]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"status": "APPROVED"}, True), ({"status": "FAILED"}, False), ({"decision": "ALLOW"}, True),
        ({"decision": "BLOCK"}, False), ({"decision": "FLAG"}, False), ({"subject": "MER-1"}, True),
        ({"subject": "bert"}, False), ({"livemode": "true"}, True), ({"livemode": "false"}, False),
    ],
)  # fmt: skip
async def test_a_session_id_is_subject_to_the_other_filters(
    front: Front,
    reviewer: SignedIn,
    query: dict[str, str],
    found: bool,  # noqa: FBT001 - an expectation
) -> None:
    await keep(front, 1, status=SessionStatus.APPROVED)

    assert await listed(reviewer, session_id=name(1), **query) == named([1] if found else [])


@pytest.mark.parametrize(
    "given", ["", "vs_", "x", "vs_" + "0" * 26, "é", name(1).upper(), name(1)[:-1], "y" * 3000]
)
async def test_an_id_that_is_no_sessions_finds_nothing(front: Front, reviewer: SignedIn, given: str) -> None:
    await keep(front, 1)

    assert await listed(reviewer, session_id=given) == []


async def test_nothing_of_another_tenant_is_shown(front: Front, reviewer: SignedIn) -> None:
    foreign = await keep(front, 1, GLOBEX)

    for query in ({}, {"session_id": foreign}, {"status": "CREATED"}, {"subject": "customer"}):
        assert await listed(reviewer, **query) == []


@pytest.mark.parametrize("mode", ["true", "false"])
async def test_a_mode_chooses_its_sessions(front: Front, reviewer: SignedIn, mode: str) -> None:
    await keep(front, 0, livemode=True)
    await keep(front, 1, livemode=False)

    assert await listed(reviewer, livemode=mode) == named([0 if mode == "true" else 1])


@pytest.mark.parametrize(
    "query",
    [{"status": "CREATED"}, {"decision": "ALLOW"}, {"subject": "cust"}, {"livemode": "true"}],
)
async def test_a_cursor_of_other_filters_is_refused(
    front: Front, reviewer: SignedIn, query: dict[str, str]
) -> None:
    for n in range(2):
        await keep(front, n)
    cursor = (await ask(reviewer, limit="1")).json["next_cursor"]

    result = await ask(reviewer, cursor=cursor, **query)

    assert (result.status, result.code) == (400, "CURSOR_INVALID")


async def test_a_cursor_of_another_tenant_or_altered_is_refused(front: Front, reviewer: SignedIn) -> None:
    for n in range(2):
        await keep(front, n)
    cursor = (await ask(reviewer, limit="1")).json["next_cursor"]
    foreign = await front.sign_in(Role.OWNER, GLOBEX)

    answers = [await ask(foreign, cursor=cursor), await ask(reviewer, cursor="A" + cursor[1:] + "A")]
    assert [one.code for one in answers] == ["CURSOR_INVALID"] * 2


async def test_sessions_opened_meanwhile_disturb_no_walk(front: Front, reviewer: SignedIn) -> None:
    for n in range(4):
        await keep(front, n)
    first = (await ask(reviewer, limit="2")).json
    await keep(front, 9)
    rest = await listed(reviewer, limit="9", cursor=first["next_cursor"])

    assert [row["session_id"] for row in first["sessions"]] + rest == named((3, 2, 1, 0))
