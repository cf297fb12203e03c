"""A tenant's API keys over HTTP: made, shown once, rotated with an overlap, revoked, their use noted."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from schemas.access import ApiKey
from schemas.audit import AuditEvent, AuditFilter
from schemas.base import rfc3339
from schemas.enums import Scope
from schemas.ids import PLATFORM, TenantId
from schemas.people import Role
from schemas.problems import StoreUnavailable, Unauthenticated
from streams.ports.records import Change, Committed, RecordKind
from streams.ports.stores import Stores
from streams.tenants.handler import Authenticate
from streams.tenants.key_usage import NoteKeyUse
from streams.tenants.rules import read_key
from tests.builders import ACME, GLOBEX
from tests.http.json_schema import Schemas
from tests.http.support import PATH as VERIFICATIONS
from tests.http.support import PEPPER, TEST, Front, Response, SignedIn, now, open_front

PATH = "/v1/control/api-keys"
REQUESTED = {"name": "integration", "livemode": False, "expires_at": "never"}


@dataclass(slots=True)
class Clock:
    """A clock that can be moved."""

    ahead: timedelta = timedelta()

    def __call__(self) -> datetime:
        """The moment, moved."""
        return now() + self.ahead


@dataclass(slots=True)
class Deployment:
    """A front over real keys, and an owner of ACME."""

    front: Front
    owner: SignedIn
    clock: Clock
    noting: NoteKeyUse

    async def make(self, **changes: Any) -> Any:
        """A new key."""
        response = await self.owner.ask("POST", PATH, json=REQUESTED | changes)
        assert response.status == 201, response.body
        return response.json

    async def rotate(self, key: Any, overlap_seconds: int = 0) -> Response:
        """Rotate a key."""
        body = {"overlap_seconds": overlap_seconds}
        return await self.owner.ask("POST", f"{PATH}/{key['key_id']}/rotate", json=body)

    async def revoke(self, key: Any) -> Response:
        """Revoke a key."""
        return await self.owner.ask("DELETE", f"{PATH}/{key['key_id']}")

    async def status(self, text: str) -> int:
        """What a tenant's route answers to a key."""
        return (await self.front.ask("GET", VERIFICATIONS, text)).status

    async def listed(self, key: Any) -> Any:
        """The key as the list shows it."""
        rows = (await self.owner.ask("GET", PATH)).json["api_keys"]
        return next(row for row in rows if row["key_id"] == key["key_id"])

    async def stored(self, text: str) -> ApiKey:
        """The key as it is kept."""
        record = await self.front.stores.records.get(PLATFORM, RecordKind.API_KEY, read_key(text).prefix)
        return ApiKey.from_bytes(record.body)

    async def rows(self, tenant_id: TenantId = ACME) -> list[AuditEvent]:
        """What the audit log tells of keys, newest first."""
        chosen = AuditFilter(action="api_key.")
        return list(await self.front.stores.audit_log.page(tenant_id, chosen, limit=50))


@pytest.fixture
async def deployment() -> AsyncIterator[Deployment]:
    """A front over real keys whose use is noted."""
    clock, made = Clock(), []

    def knowing(stores: Stores) -> Authenticate:
        made.append(NoteKeyUse(stores.journal.commit))
        return Authenticate(stores.records, PEPPER, clock, made[0])

    async with open_front(knowing=knowing, clock=clock) as front:
        yield Deployment(front, await front.sign_in(), clock, made[0])
        await made[0].aclose()


async def test_a_new_key_opens_its_tenants_routes(deployment: Deployment) -> None:
    key = await deployment.make()

    assert key["api_key"].startswith("idv_test_")
    assert await deployment.status(key["api_key"]) == 200


async def test_s29_a_key_is_shown_once_and_kept_as_a_hash(deployment: Deployment) -> None:
    key = await deployment.make()

    record = (await deployment.stored(key["api_key"])).to_bytes().decode()
    shown = (await deployment.owner.ask("GET", PATH)).body.decode()
    answer = "".join(row.model_dump_json() for row in await deployment.rows())

    secret = key["api_key"].rsplit("_", 1)[1]
    assert [secret in text for text in (record, shown, answer)] == [False] * 3
    assert "hash" not in shown
    assert read_key(key["api_key"]).prefix not in shown


async def test_s29_a_mistyped_key_is_refused_offline(deployment: Deployment) -> None:
    key = (await deployment.make())["api_key"]

    with pytest.raises(Unauthenticated):
        read_key(key[:-1] + ("a" if key[-1] != "a" else "b"))


async def test_a_replayed_request_answers_the_first_without_its_key(deployment: Deployment) -> None:
    given = {"headers": {"Idempotency-Key": "one"}, "json": REQUESTED}

    first = await deployment.owner.ask("POST", PATH, **given)
    again = await deployment.owner.ask("POST", PATH, **given)

    assert (first.status, again.status, again.headers["Idempotent-Replayed"]) == (201, 200, "true")
    assert again.json == first.json | {"api_key": None}
    assert len(await deployment.rows()) == 1


async def test_a_replay_answers_as_first_however_the_key_changed_since(deployment: Deployment) -> None:
    given = {"headers": {"Idempotency-Key": "one"}, "json": REQUESTED}
    first = await deployment.owner.ask("POST", PATH, **given)
    await deployment.rotate(first.json)
    await deployment.revoke(first.json)

    assert (await deployment.owner.ask("POST", PATH, **given)).json == first.json | {"api_key": None}


async def test_of_many_equal_requests_at_once_one_makes_a_key(deployment: Deployment) -> None:
    given = {"headers": {"Idempotency-Key": "one"}, "json": REQUESTED}

    responses = await asyncio.gather(*(deployment.owner.ask("POST", PATH, **given) for _ in range(10)))

    assert sorted(one.status for one in responses) == [200] * 9 + [201]
    assert len({one.json["key_id"] for one in responses}) == 1
    (shown,) = [one.json["api_key"] for one in responses if one.json["api_key"]]
    assert await deployment.status(shown) == 200


async def test_an_idempotency_key_used_for_another_key_is_refused(deployment: Deployment) -> None:
    headers = {"Idempotency-Key": "one"}
    await deployment.owner.ask("POST", PATH, json=REQUESTED, headers=headers)

    response = await deployment.owner.ask("POST", PATH, json=REQUESTED | {"name": "other"}, headers=headers)

    assert (response.status, response.code) == (422, "IDEMPOTENCY_KEY_REUSED")


async def test_s3_an_idempotency_key_is_the_tenants_own(deployment: Deployment) -> None:
    outsider, headers = await deployment.front.sign_in(tenant_id=GLOBEX), {"Idempotency-Key": "one"}

    responses = [
        await one.ask("POST", PATH, json=REQUESTED, headers=headers) for one in (deployment.owner, outsider)
    ]

    assert [one.status for one in responses] == [201, 201]
    assert responses[0].json["key_id"] != responses[1].json["key_id"]


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"expires_at": None}, "/expires_at"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "/expires_at"),
        ({"expires_at": "tomorrow"}, "/expires_at"),
        ({"expires_at": 4102444800}, "/expires_at"),
        ({"expires_at": "2099-13-01T00:00:00Z"}, "/expires_at"),
        ({"scopes": []}, "/scopes"),
        ({"scopes": ["audit:read", "everything"]}, "/scopes/1"),
        ({"allowed_cidrs": ["10.0.0.1/8"]}, "/allowed_cidrs/0"),
        ({"allowed_cidrs": [7]}, "/allowed_cidrs/0"),
        ({"allowed_cidrs": ["nowhere"]}, "/allowed_cidrs/0"),
        ({"allowed_cidrs": ["192.0.2.0/24"] * 51}, "/allowed_cidrs"),
        ({"livemode": "yes"}, "/livemode"),
        ({"name": ""}, "/name"),
        ({"tenant_id": GLOBEX}, "/tenant_id"),
        ({"secret_hash": "0" * 64}, "/secret_hash"),
    ],
)
async def test_an_unusable_request_is_refused_where_it_is_wrong(
    deployment: Deployment, changes: dict[str, Any], pointer: str
) -> None:
    response = await deployment.owner.ask("POST", PATH, json=REQUESTED | changes)

    assert (response.status, [*response.pointers]) == (422, [pointer])


async def test_that_a_key_never_expires_must_be_said(deployment: Deployment) -> None:
    body = {name: value for name, value in REQUESTED.items() if name != "expires_at"}

    assert [*(await deployment.owner.ask("POST", PATH, json=body)).pointers] == ["/expires_at"]


async def test_s30_a_key_has_the_scopes_mode_and_networks_it_was_given(deployment: Deployment) -> None:
    key = await deployment.make(scopes=["audit:read"], allowed_cidrs=["127.0.0.0/8"], livemode=True)
    elsewhere = await deployment.make(allowed_cidrs=["192.0.2.0/24"])

    response = await deployment.front.ask("GET", VERIFICATIONS, key["api_key"])

    assert (response.code, (await deployment.front.ask("GET", "/v1/audit", key["api_key"])).status) == (
        "PERMISSION_DENIED", 200,
    )  # fmt: skip
    assert await deployment.status(elsewhere["api_key"]) == 401
    assert (key["scopes"], key["livemode"], key["allowed_cidrs"]) == (["audit:read"], True, ["127.0.0.0/8"])


async def test_a_key_has_every_scope_and_is_live_unless_set_otherwise(deployment: Deployment) -> None:
    made = (await deployment.owner.ask("POST", PATH, json={"name": "k", "expires_at": "never"})).json

    assert (made["scopes"], made["livemode"]) == ([*Scope], True)


async def test_s30_a_key_ends_when_it_expires(deployment: Deployment) -> None:
    key = await deployment.make(expires_at=rfc3339(deployment.clock() + timedelta(hours=1)))
    before = await deployment.status(key["api_key"])
    deployment.clock.ahead = timedelta(hours=2)

    assert (before, await deployment.status(key["api_key"])) == (200, 401)


async def test_s30_both_forms_of_a_rotated_key_work_until_the_overlap_ends(deployment: Deployment) -> None:
    key = await deployment.make()

    rotated = (await deployment.rotate(key, 3600)).json
    during = [await deployment.status(text) for text in (key["api_key"], rotated["api_key"])]
    deployment.clock.ahead = timedelta(seconds=3601)
    after = [await deployment.status(text) for text in (key["api_key"], rotated["api_key"])]

    assert rotated["key_id"] == key["key_id"]
    assert (during, after) == ([200, 200], [401, 200])


async def test_a_rotation_without_overlap_leaves_the_new_form_alone(deployment: Deployment) -> None:
    key = await deployment.make()
    first = (await deployment.rotate(key, 3600)).json

    second = (await deployment.rotate(key)).json

    results = [await deployment.status(one["api_key"]) for one in (key, first, second)]
    assert results == [401, 401, 200]


async def test_rotations_within_an_overlap_keep_what_was_promised(deployment: Deployment) -> None:
    key = await deployment.make()
    forms = [key, *[(await deployment.rotate(key, 3600)).json for _ in range(3)]]

    assert [await deployment.status(one["api_key"]) for one in forms] == [200] * 4


async def test_an_overlap_lasts_a_week_at_most(deployment: Deployment) -> None:
    key = await deployment.make()

    responses = [await deployment.rotate(key, 604_801), await deployment.rotate(key, -1)]

    assert [[*one.pointers] for one in responses] == [["/overlap_seconds"]] * 2
    assert (await deployment.rotate(key, 604_800)).status == 200


async def test_rotations_at_once_all_give_a_form_that_works(deployment: Deployment) -> None:
    key = await deployment.make()

    responses = await asyncio.gather(*(deployment.rotate(key, 60) for _ in range(4)))

    assert [await deployment.status(one.json["api_key"]) for one in responses] == [200] * 4


async def test_s7_a_revocation_counts_at_the_next_request_overlap_or_not(deployment: Deployment) -> None:
    key = await deployment.make()
    rotated = (await deployment.rotate(key, 3600)).json
    before = [await deployment.status(one["api_key"]) for one in (key, rotated)]

    revoked = await deployment.revoke(key)

    after = [await deployment.status(one["api_key"]) for one in (key, rotated)]
    assert (before, revoked.status, after) == ([200, 200], 204, [401, 401])


async def test_revoking_again_changes_nothing(deployment: Deployment) -> None:
    key = await deployment.make()

    assert [(await deployment.revoke(key)).status for _ in range(2)] == [204, 204]
    assert [row.action for row in await deployment.rows()] == ["api_key.revoked", "api_key.created"]


async def test_a_revocation_wins_over_rotations_at_the_same_time(deployment: Deployment) -> None:
    key = await deployment.make()

    responses = await asyncio.gather(
        *(deployment.rotate(key, 3600) for _ in range(3)), deployment.revoke(key)
    )

    forms = [key, *(one.json for one in responses if one.status == 200)]
    assert {await deployment.status(one["api_key"]) for one in forms} == {401}


@pytest.mark.parametrize("ended", ["revoked", "expired"])
async def test_a_key_that_is_over_is_not_rotated(deployment: Deployment, ended: str) -> None:
    key = await deployment.make(expires_at=rfc3339(deployment.clock() + timedelta(minutes=1)))
    if ended == "revoked":
        await deployment.revoke(key)
    else:
        deployment.clock.ahead = timedelta(minutes=2)

    assert (await deployment.rotate(key)).status == 404


async def test_s30_every_change_of_a_key_is_one_row(deployment: Deployment) -> None:
    key = await deployment.make()
    await deployment.rotate(key, 60)
    await deployment.revoke(key)

    rows = await deployment.rows()

    assert [row.action for row in rows] == ["api_key.revoked", "api_key.rotated", "api_key.created"]
    assert {(row.subject_id, row.actor_id, row.livemode) for row in rows} == {
        (key["key_id"], deployment.owner.member.reviewer_id, False)
    }
    assert rows[1].context["changes"] == {"overlap_seconds": 60}


async def test_s1_another_tenants_key_is_not_found(deployment: Deployment) -> None:
    key, outsider = await deployment.make(), await deployment.front.sign_in(tenant_id=GLOBEX)

    responses = [
        await outsider.ask("DELETE", f"{PATH}/{key['key_id']}"),
        await outsider.ask("POST", f"{PATH}/{key['key_id']}/rotate", json={}),
    ]

    assert [one.status for one in responses] == [404, 404]
    assert await deployment.status(key["api_key"]) == 200
    assert (await outsider.ask("GET", PATH)).json["api_keys"] == []


@pytest.mark.parametrize("role", [Role.COMPLIANCE_LEAD, Role.REVIEWER, Role.AUDITOR])
async def test_s6_a_role_without_the_permission_makes_no_key(front: Front, role: Role) -> None:
    person = await front.sign_in(role)

    responses = [await person.ask("GET", PATH), await person.ask("POST", PATH, json=REQUESTED)]

    assert [one.code for one in responses] == ["PERMISSION_DENIED"] * 2


async def test_s6_a_developer_makes_a_key_and_a_key_makes_none(front: Front) -> None:
    developer = await front.sign_in(Role.DEVELOPER)

    assert (await developer.ask("POST", PATH, json=REQUESTED)).status == 201
    assert (await front.ask("POST", PATH, TEST, json=REQUESTED)).code == "API_KEY_NOT_ALLOWED"


@pytest.mark.parametrize("place", ["?api_key={}", "?access_token={}", "?key={}"])
async def test_s31_a_key_in_the_query_opens_nothing(deployment: Deployment, place: str) -> None:
    key = (await deployment.make())["api_key"]

    assert (await deployment.front.ask("GET", VERIFICATIONS + place.format(key), None)).status == 401


async def test_keys_are_listed_by_mode_and_page_by_page(deployment: Deployment) -> None:
    made = [await deployment.make(name=f"k{number}", livemode=number % 2 == 0) for number in range(5)]

    first = (await deployment.owner.ask("GET", f"{PATH}?livemode=true&limit=2")).json
    cursor = first["next_cursor"]
    second = (await deployment.owner.ask("GET", f"{PATH}?livemode=true&limit=2&cursor={cursor}")).json
    other = await deployment.owner.ask("GET", f"{PATH}?livemode=false&cursor={cursor}")

    ids = [row["key_id"] for row in first["api_keys"] + second["api_keys"]]
    assert ids == [made[number]["key_id"] for number in (4, 2, 0)]
    assert (second["next_cursor"], other.code) == (None, "CURSOR_INVALID")


async def test_s30_the_last_use_is_noted_once_a_minute(deployment: Deployment) -> None:
    key = await deployment.make()

    async def use() -> Any:
        await deployment.status(key["api_key"])
        await deployment.noting.aclose()
        return (await deployment.listed(key))["last_used_at"]

    deployment.clock.ahead = timedelta(seconds=10)
    first, again = await use(), await use()
    deployment.clock.ahead = timedelta(seconds=80)
    later = await use()

    assert key["last_used_at"] is None
    assert first is not None
    assert (again, later > first) == (first, True)


async def test_the_last_use_is_written_beside_the_request_and_never_fails_it(deployment: Deployment) -> None:
    key = await deployment.make()
    away = NoteKeyUse(_away)
    authenticate = Authenticate(deployment.front.stores.records, PEPPER, deployment.clock, away)

    caller = await authenticate(key["api_key"])
    await away.aclose()

    assert caller.tenant_id == ACME


async def _away(_: Change) -> Committed:
    raise StoreUnavailable


async def test_a_note_of_use_undoes_no_revocation(deployment: Deployment) -> None:
    key = await deployment.make()
    records = deployment.front.stores.records
    read = await records.get(PLATFORM, RecordKind.API_KEY, read_key(key["api_key"]).prefix)
    await deployment.revoke(key)

    deployment.noting(read, ApiKey.from_bytes(read.body), deployment.clock())
    await deployment.noting.aclose()

    assert (await deployment.stored(key["api_key"])).revoked_at is not None


async def test_answers_are_as_described(deployment: Deployment) -> None:
    document = (await deployment.front.ask("GET", "/v1/openapi.json", None)).json
    schemas, key = Schemas(document), await deployment.make(expires_at="2099-01-01T00:00:00Z")

    response = {
        ("post", PATH, "201"): await deployment.owner.ask("POST", PATH, json=REQUESTED),
        ("get", PATH, "200"): await deployment.owner.ask("GET", PATH),
        ("post", f"{PATH}/{{key_id}}/rotate", "200"): await deployment.rotate(key, 60),
    }

    for (method, path, status), answer in response.items():
        content = document["paths"][path][method]["responses"][status]["content"]
        described = content["application/json"]["schema"]
        assert [*schemas.complaints(answer.json, described)] == []
        assert [*schemas.undeclared(answer.json, described)] == []
