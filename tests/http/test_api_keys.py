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
from tests.http.support import PEPPER, TEST, Front, SignedIn, Told, now, open_front

PATH = "/v1/control/api-keys"
WISH = {"name": "integration", "livemode": False, "expires_at": "never"}


@dataclass(slots=True)
class Clock:
    """A clock that can be moved."""

    ahead: timedelta = timedelta()

    def __call__(self) -> datetime:
        """The moment, moved."""
        return now() + self.ahead


@dataclass(slots=True)
class House:
    """A front over real keys, and an owner of ACME."""

    front: Front
    owner: SignedIn
    clock: Clock
    noting: NoteKeyUse

    async def make(self, **changes: Any) -> Any:
        """A new key."""
        told = await self.owner.ask("POST", PATH, json=WISH | changes)
        assert told.status == 201, told.body
        return told.json

    async def rotate(self, key: Any, overlap_seconds: int = 0) -> Told:
        """Rotate a key."""
        body = {"overlap_seconds": overlap_seconds}
        return await self.owner.ask("POST", f"{PATH}/{key['key_id']}/rotate", json=body)

    async def revoke(self, key: Any) -> Told:
        """Revoke a key."""
        return await self.owner.ask("DELETE", f"{PATH}/{key['key_id']}")

    async def status(self, text: str) -> int:
        """What a tenant's route answers to a key."""
        return (await self.front.ask("GET", VERIFICATIONS, text)).status

    async def listed(self, key: Any) -> Any:
        """The key as the list shows it."""
        rows = (await self.owner.ask("GET", PATH)).json["api_keys"]
        return next(row for row in rows if row["key_id"] == key["key_id"])

    async def kept(self, text: str) -> ApiKey:
        """The key as it is kept."""
        record = await self.front.stores.records.get(PLATFORM, RecordKind.API_KEY, read_key(text).prefix)
        return ApiKey.from_bytes(record.body)

    async def rows(self, tenant_id: TenantId = ACME) -> list[AuditEvent]:
        """What the audit log tells of keys, newest first."""
        chosen = AuditFilter(action="api_key.")
        return list(await self.front.stores.audit_log.page(tenant_id, chosen, limit=50))


@pytest.fixture
async def house() -> AsyncIterator[House]:
    """A front over real keys whose use is noted."""
    clock, made = Clock(), []

    def knowing(stores: Stores) -> Authenticate:
        made.append(NoteKeyUse(stores.journal.commit))
        return Authenticate(stores.records, PEPPER, clock, made[0])

    async with open_front(knowing=knowing, clock=clock) as front:
        yield House(front, await front.sign_in(), clock, made[0])
        await made[0].aclose()


async def test_a_new_key_opens_its_tenants_routes(house: House) -> None:
    key = await house.make()

    assert key["api_key"].startswith("idv_test_")
    assert await house.status(key["api_key"]) == 200


async def test_s29_a_key_is_shown_once_and_kept_as_a_hash(house: House) -> None:
    key = await house.make()

    record = (await house.kept(key["api_key"])).to_bytes().decode()
    shown = (await house.owner.ask("GET", PATH)).body.decode()
    told = "".join(row.model_dump_json() for row in await house.rows())

    secret = key["api_key"].rsplit("_", 1)[1]
    assert [secret in text for text in (record, shown, told)] == [False] * 3
    assert "hash" not in shown
    assert read_key(key["api_key"]).prefix not in shown


async def test_s29_a_mistyped_key_is_refused_offline(house: House) -> None:
    key = (await house.make())["api_key"]

    with pytest.raises(Unauthenticated):
        read_key(key[:-1] + ("a" if key[-1] != "a" else "b"))


async def test_a_replayed_request_answers_the_first_without_its_key(house: House) -> None:
    given = {"headers": {"Idempotency-Key": "one"}, "json": WISH}

    first = await house.owner.ask("POST", PATH, **given)
    again = await house.owner.ask("POST", PATH, **given)

    assert (first.status, again.status, again.headers["Idempotent-Replayed"]) == (201, 200, "true")
    assert again.json == first.json | {"api_key": None}
    assert len(await house.rows()) == 1


async def test_a_replay_answers_as_first_however_the_key_changed_since(house: House) -> None:
    given = {"headers": {"Idempotency-Key": "one"}, "json": WISH}
    first = await house.owner.ask("POST", PATH, **given)
    await house.rotate(first.json)
    await house.revoke(first.json)

    assert (await house.owner.ask("POST", PATH, **given)).json == first.json | {"api_key": None}


async def test_of_many_equal_requests_at_once_one_makes_a_key(house: House) -> None:
    given = {"headers": {"Idempotency-Key": "one"}, "json": WISH}

    told = await asyncio.gather(*(house.owner.ask("POST", PATH, **given) for _ in range(10)))

    assert sorted(one.status for one in told) == [200] * 9 + [201]
    assert len({one.json["key_id"] for one in told}) == 1
    (shown,) = [one.json["api_key"] for one in told if one.json["api_key"]]
    assert await house.status(shown) == 200


async def test_an_idempotency_key_used_for_another_key_is_refused(house: House) -> None:
    headers = {"Idempotency-Key": "one"}
    await house.owner.ask("POST", PATH, json=WISH, headers=headers)

    told = await house.owner.ask("POST", PATH, json=WISH | {"name": "other"}, headers=headers)

    assert (told.status, told.code) == (422, "IDEMPOTENCY_KEY_REUSED")


async def test_s3_an_idempotency_key_is_the_tenants_own(house: House) -> None:
    stranger, headers = await house.front.sign_in(tenant_id=GLOBEX), {"Idempotency-Key": "one"}

    told = [await one.ask("POST", PATH, json=WISH, headers=headers) for one in (house.owner, stranger)]

    assert [one.status for one in told] == [201, 201]
    assert told[0].json["key_id"] != told[1].json["key_id"]


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
async def test_an_unusable_wish_is_refused_where_it_is_wrong(
    house: House, changes: dict[str, Any], pointer: str
) -> None:
    told = await house.owner.ask("POST", PATH, json=WISH | changes)

    assert (told.status, [*told.pointers]) == (422, [pointer])


async def test_that_a_key_never_expires_must_be_said(house: House) -> None:
    wish = {name: value for name, value in WISH.items() if name != "expires_at"}

    assert [*(await house.owner.ask("POST", PATH, json=wish)).pointers] == ["/expires_at"]


async def test_s30_a_key_has_the_scopes_mode_and_networks_it_was_given(house: House) -> None:
    key = await house.make(scopes=["audit:read"], allowed_cidrs=["127.0.0.0/8"], livemode=True)
    elsewhere = await house.make(allowed_cidrs=["192.0.2.0/24"])

    told = await house.front.ask("GET", VERIFICATIONS, key["api_key"])

    assert (told.code, (await house.front.ask("GET", "/v1/audit", key["api_key"])).status) == (
        "PERMISSION_DENIED", 200,
    )  # fmt: skip
    assert await house.status(elsewhere["api_key"]) == 401
    assert (key["scopes"], key["livemode"], key["allowed_cidrs"]) == (["audit:read"], True, ["127.0.0.0/8"])


async def test_a_key_has_every_scope_and_is_live_unless_told_otherwise(house: House) -> None:
    made = (await house.owner.ask("POST", PATH, json={"name": "k", "expires_at": "never"})).json

    assert (made["scopes"], made["livemode"]) == ([*Scope], True)


async def test_s30_a_key_ends_when_it_expires(house: House) -> None:
    key = await house.make(expires_at=rfc3339(house.clock() + timedelta(hours=1)))
    before = await house.status(key["api_key"])
    house.clock.ahead = timedelta(hours=2)

    assert (before, await house.status(key["api_key"])) == (200, 401)


async def test_s30_both_forms_of_a_rotated_key_work_until_the_overlap_ends(house: House) -> None:
    key = await house.make()

    rotated = (await house.rotate(key, 3600)).json
    during = [await house.status(text) for text in (key["api_key"], rotated["api_key"])]
    house.clock.ahead = timedelta(seconds=3601)
    after = [await house.status(text) for text in (key["api_key"], rotated["api_key"])]

    assert rotated["key_id"] == key["key_id"]
    assert (during, after) == ([200, 200], [401, 200])


async def test_a_rotation_without_overlap_leaves_the_new_form_alone(house: House) -> None:
    key = await house.make()
    first = (await house.rotate(key, 3600)).json

    second = (await house.rotate(key)).json

    told = [await house.status(one["api_key"]) for one in (key, first, second)]
    assert told == [401, 401, 200]


async def test_rotations_within_an_overlap_keep_what_was_promised(house: House) -> None:
    key = await house.make()
    forms = [key, *[(await house.rotate(key, 3600)).json for _ in range(3)]]

    assert [await house.status(one["api_key"]) for one in forms] == [200] * 4


async def test_an_overlap_lasts_a_week_at_most(house: House) -> None:
    key = await house.make()

    told = [await house.rotate(key, 604_801), await house.rotate(key, -1)]

    assert [[*one.pointers] for one in told] == [["/overlap_seconds"]] * 2
    assert (await house.rotate(key, 604_800)).status == 200


async def test_rotations_at_once_all_give_a_form_that_works(house: House) -> None:
    key = await house.make()

    told = await asyncio.gather(*(house.rotate(key, 60) for _ in range(4)))

    assert [await house.status(one.json["api_key"]) for one in told] == [200] * 4


async def test_s7_a_revocation_counts_at_the_next_request_overlap_or_not(house: House) -> None:
    key = await house.make()
    rotated = (await house.rotate(key, 3600)).json
    before = [await house.status(one["api_key"]) for one in (key, rotated)]

    revoked = await house.revoke(key)

    after = [await house.status(one["api_key"]) for one in (key, rotated)]
    assert (before, revoked.status, after) == ([200, 200], 204, [401, 401])


async def test_revoking_again_changes_nothing(house: House) -> None:
    key = await house.make()

    assert [(await house.revoke(key)).status for _ in range(2)] == [204, 204]
    assert [row.action for row in await house.rows()] == ["api_key.revoked", "api_key.created"]


async def test_a_revocation_wins_over_rotations_at_the_same_time(house: House) -> None:
    key = await house.make()

    told = await asyncio.gather(*(house.rotate(key, 3600) for _ in range(3)), house.revoke(key))

    forms = [key, *(one.json for one in told if one.status == 200)]
    assert {await house.status(one["api_key"]) for one in forms} == {401}


@pytest.mark.parametrize("ended", ["revoked", "expired"])
async def test_a_key_that_is_over_is_not_rotated(house: House, ended: str) -> None:
    key = await house.make(expires_at=rfc3339(house.clock() + timedelta(minutes=1)))
    if ended == "revoked":
        await house.revoke(key)
    else:
        house.clock.ahead = timedelta(minutes=2)

    assert (await house.rotate(key)).status == 404


async def test_s30_every_change_of_a_key_is_one_row(house: House) -> None:
    key = await house.make()
    await house.rotate(key, 60)
    await house.revoke(key)

    rows = await house.rows()

    assert [row.action for row in rows] == ["api_key.revoked", "api_key.rotated", "api_key.created"]
    assert {(row.subject_id, row.actor_id, row.livemode) for row in rows} == {
        (key["key_id"], house.owner.member.reviewer_id, False)
    }
    assert rows[1].context["changes"] == {"overlap_seconds": 60}


async def test_s1_another_tenants_key_is_not_found(house: House) -> None:
    key, stranger = await house.make(), await house.front.sign_in(tenant_id=GLOBEX)

    told = [
        await stranger.ask("DELETE", f"{PATH}/{key['key_id']}"),
        await stranger.ask("POST", f"{PATH}/{key['key_id']}/rotate", json={}),
    ]

    assert [one.status for one in told] == [404, 404]
    assert await house.status(key["api_key"]) == 200
    assert (await stranger.ask("GET", PATH)).json["api_keys"] == []


@pytest.mark.parametrize("role", [Role.COMPLIANCE_LEAD, Role.REVIEWER, Role.AUDITOR])
async def test_s6_a_role_without_the_permission_makes_no_key(front: Front, role: Role) -> None:
    person = await front.sign_in(role)

    told = [await person.ask("GET", PATH), await person.ask("POST", PATH, json=WISH)]

    assert [one.code for one in told] == ["PERMISSION_DENIED"] * 2


async def test_s6_a_developer_makes_a_key_and_a_key_makes_none(front: Front) -> None:
    developer = await front.sign_in(Role.DEVELOPER)

    assert (await developer.ask("POST", PATH, json=WISH)).status == 201
    assert (await front.ask("POST", PATH, TEST, json=WISH)).code == "API_KEY_NOT_ALLOWED"


@pytest.mark.parametrize("place", ["?api_key={}", "?access_token={}", "?key={}"])
async def test_s31_a_key_in_the_query_opens_nothing(house: House, place: str) -> None:
    key = (await house.make())["api_key"]

    assert (await house.front.ask("GET", VERIFICATIONS + place.format(key), None)).status == 401


async def test_keys_are_listed_by_mode_and_page_by_page(house: House) -> None:
    made = [await house.make(name=f"k{number}", livemode=number % 2 == 0) for number in range(5)]

    first = (await house.owner.ask("GET", f"{PATH}?livemode=true&limit=2")).json
    cursor = first["next_cursor"]
    second = (await house.owner.ask("GET", f"{PATH}?livemode=true&limit=2&cursor={cursor}")).json
    other = await house.owner.ask("GET", f"{PATH}?livemode=false&cursor={cursor}")

    ids = [row["key_id"] for row in first["api_keys"] + second["api_keys"]]
    assert ids == [made[number]["key_id"] for number in (4, 2, 0)]
    assert (second["next_cursor"], other.code) == (None, "CURSOR_INVALID")


async def test_s30_the_last_use_is_noted_once_a_minute(house: House) -> None:
    key = await house.make()

    async def use() -> Any:
        await house.status(key["api_key"])
        await house.noting.aclose()
        return (await house.listed(key))["last_used_at"]

    house.clock.ahead = timedelta(seconds=10)
    first, again = await use(), await use()
    house.clock.ahead = timedelta(seconds=80)
    later = await use()

    assert key["last_used_at"] is None
    assert first is not None
    assert (again, later > first) == (first, True)


async def test_the_last_use_is_written_beside_the_request_and_never_fails_it(house: House) -> None:
    key = await house.make()
    away = NoteKeyUse(_away)
    authenticate = Authenticate(house.front.stores.records, PEPPER, house.clock, away)

    caller = await authenticate(key["api_key"])
    await away.aclose()

    assert caller.tenant_id == ACME


async def _away(_: Change) -> Committed:
    raise StoreUnavailable


async def test_a_note_of_use_undoes_no_revocation(house: House) -> None:
    key = await house.make()
    records = house.front.stores.records
    read = await records.get(PLATFORM, RecordKind.API_KEY, read_key(key["api_key"]).prefix)
    await house.revoke(key)

    house.noting(read, ApiKey.from_bytes(read.body), house.clock())
    await house.noting.aclose()

    assert (await house.kept(key["api_key"])).revoked_at is not None


async def test_answers_are_as_described(house: House) -> None:
    document = (await house.front.ask("GET", "/v1/openapi.json", None)).json
    schemas, key = Schemas(document), await house.make(expires_at="2099-01-01T00:00:00Z")

    told = {
        ("post", PATH, "201"): await house.owner.ask("POST", PATH, json=WISH),
        ("get", PATH, "200"): await house.owner.ask("GET", PATH),
        ("post", f"{PATH}/{{key_id}}/rotate", "200"): await house.rotate(key, 60),
    }

    for (method, path, status), answer in told.items():
        content = document["paths"][path][method]["responses"][status]["content"]
        described = content["application/json"]["schema"]
        assert [*schemas.complaints(answer.json, described)] == []
        assert [*schemas.undeclared(answer.json, described)] == []
