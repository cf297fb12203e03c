"""The members of a tenant over HTTP: invited, listed, changed, suspended, their factor reset by two."""

import asyncio
from typing import Any

import pytest

from schemas.audit import AuditEvent, AuditFilter
from schemas.ids import derive_id
from schemas.people import Factor, Permission, Role
from streams.ports.records import RecordKind
from tests.builders import ACME, GLOBEX, NOW
from tests.http.json_schema import Schemas
from tests.http.support import TEST, Front, Response, SignedIn

PATH = "/v1/control/members"
RESET = "/v1/control/password/reset"
PASSWORD = "seven otters cross the quiet bridge"  # noqa: S105 - a test's own
ADA = {"email": "Ada.Obi@acme.example", "name": " Ada Obi ", "role": "REVIEWER"}


async def rows_of(front: Front, action: str) -> list[AuditEvent]:
    """The tenant's rows of an action, newest first."""
    return list(await front.stores.audit_log.page(ACME, AuditFilter(action=action), limit=50))


async def patch(asking: SignedIn, member: SignedIn, **changes: Any) -> Response:
    """Change a member."""
    return await asking.ask("PATCH", f"{PATH}/{member.member.reviewer_id}", json=changes)


async def reset(asking: SignedIn, member: SignedIn) -> Response:
    """Ask for, or confirm, the reset of a factor."""
    return await asking.ask("POST", f"{PATH}/{member.member.reviewer_id}/reset-factor")


async def with_factor(member: SignedIn) -> SignedIn:
    """The member, a factor in use."""
    factor = Factor(factor_id="mfa_1", sealed_seed="s", confirmed_at=NOW, last_step=1, recovery_hashes=())
    await member.change_member(factor=factor)
    return member


async def test_an_invited_member_sets_a_password_with_the_token_and_signs_in(front: Front) -> None:
    owner = await front.sign_in()

    invited = await owner.ask("POST", PATH, json=ADA)
    token = invited.json["invitation_token"]
    own = {"Origin": "https://id.example"}
    redeemed = await front.ask(
        "POST", RESET, None, json={"token": token, "new_password": PASSWORD}, headers=own
    )
    credentials = {"email": "ada.obi@acme.example", "password": PASSWORD}
    signed_in = await front.ask("POST", "/v1/control/sessions", None, json=credentials, headers=own)

    assert (invited.status, redeemed.status, signed_in.status) == (201, 204, 201)
    assert signed_in.json["reviewer"]["id"] == invited.json["reviewer_id"]


async def test_an_invited_member_is_shown_as_it_is_kept(front: Front) -> None:
    owner = await front.sign_in()

    response = (await owner.ask("POST", PATH, json=ADA)).json
    listed = (await owner.ask("GET", PATH)).json["members"]

    assert (response["email"], response["name"], response["role"]) == (
        "ada.obi@acme.example",
        "Ada Obi",
        "REVIEWER",
    )
    assert (response["active"], response["password_set"], response["mfa_enrolled"]) == (True, False, False)
    stored = {name: value for name, value in response.items() if not name.startswith("invitation")}
    assert stored in listed


async def test_an_invitation_writes_one_row_without_personal_data(front: Front) -> None:
    owner = await front.sign_in()

    response = (await owner.ask("POST", PATH, json=ADA)).json

    (row,) = await rows_of(front, "member.invited")
    assert (row.subject_id, row.actor_id) == (response["reviewer_id"], owner.member.reviewer_id)
    assert "obi" not in row.model_dump_json().lower()


async def test_a_replayed_invitation_answers_the_first_without_its_token(front: Front) -> None:
    owner, key = await front.sign_in(), {"Idempotency-Key": "ada"}

    first = await owner.ask("POST", PATH, json=ADA, headers=key)
    again = await owner.ask("POST", PATH, json=ADA, headers=key)

    assert (first.status, again.status, again.headers["Idempotent-Replayed"]) == (201, 200, "true")
    hidden = {"invitation_token": None, "invitation_expires_at": None}
    assert again.json == first.json | hidden
    assert len(await rows_of(front, "member.invited")) == 1


async def test_a_key_used_for_another_invitation_is_refused(front: Front) -> None:
    owner, key = await front.sign_in(), {"Idempotency-Key": "ada"}
    await owner.ask("POST", PATH, json=ADA, headers=key)

    others = [ADA | {"email": "bo@acme.example"}, ADA | {"role": "AUDITOR"}]
    responses = [await owner.ask("POST", PATH, json=other, headers=key) for other in others]

    assert [one.code for one in responses] == ["IDEMPOTENCY_KEY_REUSED"] * 2


async def test_of_many_invitations_at_once_one_is_made(front: Front) -> None:
    owner, key = await front.sign_in(), {"Idempotency-Key": "ada"}

    responses = await asyncio.gather(*(owner.ask("POST", PATH, json=ADA, headers=key) for _ in range(10)))

    assert sorted(one.status for one in responses) == [200] * 9 + [201]
    assert len({one.json["reviewer_id"] for one in responses}) == 1


async def test_an_address_belongs_to_one_member_of_a_tenant(front: Front) -> None:
    owner = await front.sign_in()
    await owner.ask("POST", PATH, json=ADA)

    again = await owner.ask("POST", PATH, json=ADA)

    assert (again.status, again.code, again.pointers) == (409, "MEMBER_EXISTS", {"/email": "MEMBER_EXISTS"})


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"email": "nobody"}, "/email"),
        ({"email": "a b@acme.example"}, "/email"),
        ({"email": "a\x00@acme.example"}, "/email"),
        ({"email": f"{'a' * 65}@acme.example"}, "/email"),
        ({"email": 7}, "/email"),
        ({"name": "   "}, "/name"),
        ({"name": "x" * 121}, "/name"),
        ({"name": "a\nb"}, "/name"),
        ({"role": "KING"}, "/role"),
        ({"tenant_id": GLOBEX}, "/tenant_id"),
        ({"password_hash": "x"}, "/password_hash"),
    ],
)
async def test_an_unusable_invitation_is_refused_where_it_is_wrong(
    front: Front, changes: dict[str, Any], pointer: str
) -> None:
    owner = await front.sign_in()

    response = await owner.ask("POST", PATH, json=ADA | changes)

    assert (response.status, [*response.pointers]) == (422, [pointer])


@pytest.mark.parametrize("role", [role for role in Role if role not in {Role.OWNER, Role.ADMIN}])
async def test_s6_only_managers_of_members_come_near_them(front: Front, role: Role) -> None:
    person, other = await front.sign_in(role), await front.sign_in(Role.AUDITOR)

    responses = [
        await person.ask("GET", PATH),
        await person.ask("POST", PATH, json=ADA),
        await patch(person, other, role="OWNER"),
        await reset(person, other),
    ]

    assert [(one.status, one.code) for one in responses] == [(403, "PERMISSION_DENIED")] * 4
    assert Permission.MEMBERS_MANAGE in responses[0].json["detail"]


async def test_s6_an_api_key_manages_no_members(front: Front) -> None:
    assert (await front.ask("GET", PATH, TEST)).code == "API_KEY_NOT_ALLOWED"


async def test_s1_another_tenants_member_is_not_found(front: Front) -> None:
    owner, outsider = await front.sign_in(), await front.sign_in(tenant_id=GLOBEX)

    responses = [await patch(owner, outsider, active=False), await reset(owner, outsider)]
    unknown = await owner.ask("PATCH", f"{PATH}/{derive_id('usr', 'nobody')}", json={"active": True})

    assert [one.status for one in (*responses, unknown)] == [404] * 3


async def test_s2_no_list_shows_another_tenants_members(front: Front) -> None:
    owner, outsider = await front.sign_in(), await front.sign_in(tenant_id=GLOBEX)

    assert outsider.member.reviewer_id not in (await owner.ask("GET", PATH)).body.decode()


async def test_s5_a_member_is_shown_without_any_secret(front: Front) -> None:
    owner = await with_factor(await front.sign_in())

    shown = (await owner.ask("GET", PATH)).body.decode()

    assert not [word for word in ("hash", "seed", "session", "token", "lookup") if word in shown]


async def test_s73_members_come_page_by_page_and_a_cursor_serves_its_tenant_alone(front: Front) -> None:
    owner, outsider = await front.sign_in(), await front.sign_in(tenant_id=GLOBEX)
    for number in range(4):
        await owner.ask("POST", PATH, json=ADA | {"email": f"m{number}@acme.example"})

    first = (await owner.ask("GET", f"{PATH}?limit=3")).json
    cursor = first["next_cursor"]
    second = (await owner.ask("GET", f"{PATH}?limit=3&cursor={cursor}")).json
    swapped = await outsider.ask("GET", f"{PATH}?cursor={cursor}")
    altered = await owner.ask("GET", f"{PATH}?cursor={cursor.swapcase()}")

    ids = [member["reviewer_id"] for member in first["members"] + second["members"]]
    assert (len(ids), len(set(ids)), second["next_cursor"]) == (5, 5, None)
    assert [one.code for one in (swapped, altered)] == ["CURSOR_INVALID"] * 2


async def test_an_empty_page_is_asked_for_with_zero(front: Front) -> None:
    owner = await front.sign_in()

    assert (await owner.ask("GET", f"{PATH}?limit=0")).json == {"members": [], "next_cursor": None}


async def test_s7_another_role_counts_at_the_next_request(front: Front) -> None:
    owner, person = await front.sign_in(), await front.sign_in(Role.ADMIN)
    before = (await person.ask("GET", PATH)).status

    changed = await patch(owner, person, role="AUDITOR")

    assert (before, changed.json["role"], (await person.ask("GET", PATH)).status) == (200, "AUDITOR", 403)
    (row,) = await rows_of(front, "member.role_changed")
    assert row.context["changes"] == {"role": "AUDITOR", "previous_role": "ADMIN"}


async def test_s14_a_suspension_ends_every_session_at_once(front: Front) -> None:
    owner, person = await front.sign_in(), await front.sign_in(Role.ADMIN)

    suspended = await patch(owner, person, active=False)

    assert (suspended.json["active"], (await person.ask("GET", PATH)).status) == (False, 401)
    assert [row.subject_id for row in await rows_of(front, "member.suspended")] == [person.member.reviewer_id]


async def test_a_member_let_in_again_has_to_sign_in_anew(front: Front) -> None:
    owner, person = await front.sign_in(), await front.sign_in(Role.ADMIN)
    await patch(owner, person, active=False)

    back = await patch(owner, person, active=True)

    assert (back.json["active"], (await person.ask("GET", PATH)).status) == (True, 401)


async def test_a_suspension_voids_an_invitation(front: Front) -> None:
    owner = await front.sign_in()
    invited = (await owner.ask("POST", PATH, json=ADA)).json
    for active in (False, True):
        await owner.ask("PATCH", f"{PATH}/{invited['reviewer_id']}", json={"active": active})

    response = await front.ask(
        "POST", RESET, None, json={"token": invited["invitation_token"], "new_password": PASSWORD},
        headers={"Origin": "https://id.example"},
    )  # fmt: skip

    assert response.code == "CREDENTIALS_INVALID"


async def test_a_change_without_a_difference_writes_nothing(front: Front) -> None:
    owner, person = await front.sign_in(), await front.sign_in(Role.AUDITOR)

    response = await patch(owner, person, role="AUDITOR", active=True)

    assert response.status == 200
    assert await rows_of(front, "member.") == []


@pytest.mark.parametrize("changes", [{}, {"role": None}, {"active": None}, {"active": "no"}, {"email": "x"}])
async def test_a_change_of_nothing_or_of_something_else_is_refused(
    front: Front, changes: dict[str, Any]
) -> None:
    owner, person = await front.sign_in(), await front.sign_in(Role.AUDITOR)

    assert (await patch(owner, person, **changes)).status == 422


@pytest.mark.parametrize(
    ("changes", "pointer"), [({"role": "ADMIN"}, "/role"), ({"active": False}, "/active")]
)
async def test_the_last_active_owner_stays_one(front: Front, changes: dict[str, Any], pointer: str) -> None:
    owner = await front.sign_in()
    suspended = await front.sign_in()
    await suspended.change_member(active=False)

    response = await patch(owner, owner, **changes)

    assert (response.status, [*response.pointers]) == (422, [pointer])


async def test_an_owner_may_leave_when_another_stays(front: Front) -> None:
    owner, other = await front.sign_in(), await front.sign_in()

    assert (await patch(owner, owner, role="AUDITOR")).status == 200
    assert (await patch(other, other, role="AUDITOR")).status == 422


async def test_of_owners_that_all_leave_at_once_one_stays(front: Front) -> None:
    owners = [await front.sign_in() for _ in range(6)]

    responses = await asyncio.gather(*(patch(one, one, active=False) for one in owners))

    listed = [
        await front.stores.records.get(ACME, RecordKind.REVIEWER, one.member.reviewer_id) for one in owners
    ]
    assert sorted(one.status for one in responses) == [200] * 5 + [422]
    assert sum(b'"active":true' in record.body for record in listed) == 1


async def test_owners_that_suspend_each_other_at_once_leave_one(front: Front) -> None:
    one, other = await front.sign_in(), await front.sign_in()

    responses = await asyncio.gather(patch(one, other, active=False), patch(other, one, role="AUDITOR"))

    assert sorted(answer.status for answer in responses) in ([200, 401], [200, 422])


async def test_only_an_owner_makes_or_changes_an_owner(front: Front) -> None:
    admin, owner, other = await front.sign_in(Role.ADMIN), await front.sign_in(), await front.sign_in()

    responses = [
        await admin.ask("POST", PATH, json=ADA | {"role": "OWNER"}),
        await patch(admin, admin, role="OWNER"),
        await patch(admin, owner, role="ADMIN"),
        await patch(admin, owner, active=False),
        await reset(admin, await with_factor(other)),
    ]

    assert [(one.status, one.code) for one in responses] == [(403, "PERMISSION_DENIED")] * 5


async def test_nobody_but_an_owner_takes_another_role(front: Front) -> None:
    admin = await front.sign_in(Role.ADMIN)

    assert (await patch(admin, admin, role="COMPLIANCE_LEAD")).code == "PERMISSION_DENIED"


async def test_a_factor_is_reset_by_two_people(front: Front) -> None:
    one, two = await front.sign_in(Role.ADMIN), await front.sign_in()
    person = await with_factor(await front.sign_in(Role.REVIEWER))

    asked = await reset(one, person)
    (waiting,) = [m for m in (await two.ask("GET", PATH)).json["members"] if m["factor_reset"]]
    still = (await person.ask("GET", "/v1/control/mfa")).status
    confirmed = await reset(two, person)
    listed = (await two.ask("GET", PATH)).json["members"]
    (now,) = [one for one in listed if one["reviewer_id"] == person.member.reviewer_id]

    assert (asked.status, still, confirmed.status) == (204, 200, 204)
    assert (waiting["reviewer_id"], waiting["factor_reset"]["asked_by"], waiting["mfa_enrolled"]) == (
        person.member.reviewer_id, one.member.reviewer_id, True,
    )  # fmt: skip
    assert (now["mfa_enrolled"], now["factor_reset"]) == (False, None)
    assert (await person.ask("GET", "/v1/control/mfa")).status == 401
    rows = await rows_of(front, "mfa.reset")
    assert [row.actor_id for row in rows] == [two.member.reviewer_id, one.member.reviewer_id]


async def test_one_person_alone_resets_no_factor(front: Front) -> None:
    one = await front.sign_in()
    person = await with_factor(await front.sign_in(Role.REVIEWER))

    results = [await reset(one, person) for _ in range(2)]

    assert [results[0].status, results[1].code] == [204, "SECOND_REVIEWER_MUST_DIFFER"]
    assert (await person.ask("GET", "/v1/control/mfa")).json["enrolled"]


async def test_nobody_resets_their_own_factor(front: Front) -> None:
    one, two = await with_factor(await front.sign_in()), await front.sign_in()
    await reset(two, one)

    assert (await reset(one, one)).code == "SECOND_REVIEWER_MUST_DIFFER"


async def test_the_command_of_a_suspended_colleague_counts_no_more(front: Front) -> None:
    one, two = await front.sign_in(Role.ADMIN), await front.sign_in()
    person = await with_factor(await front.sign_in(Role.REVIEWER))
    await reset(one, person)
    await patch(two, one, active=False)

    result = await reset(two, person)

    assert result.status == 204
    assert (await person.ask("GET", "/v1/control/mfa")).json["enrolled"]


async def test_two_confirmations_at_once_reset_once(front: Front) -> None:
    people = [await front.sign_in() for _ in range(3)]
    person = await with_factor(await front.sign_in(Role.REVIEWER))
    await reset(people[0], person)

    results = await asyncio.gather(*(reset(one, person) for one in people[1:]))

    assert [one.status for one in results] == [204, 204]
    assert len(await rows_of(front, "mfa.reset")) == 2


async def test_a_member_without_a_factor_has_nothing_to_reset(front: Front) -> None:
    one, person = await front.sign_in(), await front.sign_in(Role.REVIEWER)

    assert (await reset(one, person)).status == 204
    assert await rows_of(front, "mfa.reset") == []


@pytest.mark.parametrize("origin", ["https://evil.example", "null", None])
async def test_s16_a_write_from_elsewhere_is_refused(front: Front, origin: str | None) -> None:
    owner = await front.sign_in()

    response = await owner.ask("POST", PATH, json=ADA, headers={"Origin": origin})

    assert response.code == "ORIGIN_REFUSED"


async def test_answers_are_as_described(front: Front) -> None:
    owner, person = await front.sign_in(), await with_factor(await front.sign_in(Role.REVIEWER))
    document = (await front.ask("GET", "/v1/openapi.json", None)).json
    schemas = Schemas(document)
    await reset(owner, person)

    responses = {
        ("post", PATH, "201"): await owner.ask("POST", PATH, json=ADA),
        ("get", PATH, "200"): await owner.ask("GET", PATH),
        ("patch", f"{PATH}/{{reviewer_id}}", "200"): await patch(owner, person, role="AUDITOR"),
    }

    for (method, path, status), answer in responses.items():
        content = document["paths"][path][method]["responses"][status]["content"]
        described = content["application/json"]["schema"]
        assert [*schemas.complaints(answer.json, described)] == []
        assert [*schemas.undeclared(answer.json, described)] == []
