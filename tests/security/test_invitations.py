"""Invitations: what they say of other tenants, when an address is bound, and how one is withdrawn."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from schemas.audit import AuditFilter
from schemas.ids import PLATFORM, TenantId, derive_id
from schemas.people import Role
from schemas.problems import NotFound, ProblemCode, Refused, Unauthenticated
from streams.reviewers.addresses import COUNTS_AS_BOUND, bind_address
from streams.reviewers.invitations import NewMember, add_with_password, invite
from streams.reviewers.member_changes import remove_member
from streams.reviewers.members import find_by_email, find_in_tenant
from streams.sign_in.passwords import ResetPassword
from streams.tenants.handler import OPERATOR, RequestName
from tests.builders import ACME, GLOBEX
from tests.contracts.adapters import Opened
from tests.handlers.people_stage import PASSWORD, Stage, staged
from tests.http.reviewers import RESET, SESSIONS, Office, open_office
from tests.http.support import BASE_URL, Response, SignedIn

MEMBERS = "/v1/control/members"
VICTIM = {"email": "victim@acme.example", "name": "A Victim", "role": "REVIEWER"}


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    """A served front."""
    async with open_office() as opened:
        yield opened


@pytest.fixture
async def stage(opened: Opened) -> AsyncIterator[Stage]:
    """The use cases over every adapter in turn."""
    async with staged(opened.stores) as made:
        yield made


async def redeem(office: Office, invited: Response, password: str = PASSWORD) -> Response:
    """Set the first password with the token of an invitation."""
    body = {"token": invited.json["invitation_token"], "new_password": password}
    return await office.front.ask("POST", RESET, None, json=body, headers={"Origin": BASE_URL})


async def sign_in(office: Office, password: str = PASSWORD) -> Response:
    """Sign in with the invited address."""
    body = {"email": VICTIM["email"], "password": password}
    return await office.front.ask("POST", SESSIONS, None, json=body, headers={"Origin": BASE_URL})


async def failures(office: Office, tenant_id: TenantId) -> int:
    """How many failed sign-ins the log of a tenant, or of the platform, tells of."""
    chosen = AuditFilter(action="reviewer.sign_in_failed")
    return len(await office.front.stores.audit_log.page(tenant_id, chosen, limit=50))


def shape(response: Response) -> tuple[int, list[str], list[Any]]:
    """What an answer shows beside ids, times and the token."""
    plain = ("email", "name", "role", "active", "password_set", "mfa_enrolled", "factor_reset")
    return response.status, sorted(response.json), [response.json[name] for name in plain]


async def test_an_invitation_answers_alike_wherever_the_address_is_a_members(office: Office) -> None:
    own, other = await office.front.sign_in(), await office.front.sign_in(tenant_id=GLOBEX)
    await office.add("signs.in@acme.example", tenant_id=GLOBEX)
    await other.ask("POST", MEMBERS, json=VICTIM | {"email": "invited@acme.example"})

    responses = [
        await own.ask("POST", MEMBERS, json=VICTIM | {"email": f"{local}@acme.example"})
        for local in ("signs.in", "invited", "nobody")
    ]

    shapes = [shape(one) for one in responses]
    for one in shapes:
        one[2][0] = "any"
    assert shapes[0][0] == 201
    assert shapes == [shapes[0]] * 3


async def test_an_open_invitation_binds_no_address_of_another_tenants_member(office: Office) -> None:
    squatter, own = await office.front.sign_in(tenant_id=GLOBEX), await office.front.sign_in()
    await squatter.ask("POST", MEMBERS, json=VICTIM)

    invited = await own.ask("POST", MEMBERS, json=VICTIM)
    redeemed = await redeem(office, invited)
    signed_in = await sign_in(office)

    assert (invited.status, redeemed.status, signed_in.status) == (201, 204, 201)
    assert signed_in.json["reviewer"]["tenant_id"] == ACME


async def test_the_second_tenant_to_redeem_an_address_is_refused(office: Office) -> None:
    first, second = await office.front.sign_in(), await office.front.sign_in(tenant_id=GLOBEX)
    invited = [await one.ask("POST", MEMBERS, json=VICTIM) for one in (first, second)]

    redeemed = [await redeem(office, one) for one in invited]
    (seen,) = [
        one for one in (await second.ask("GET", MEMBERS)).json["members"] if one["email"] == VICTIM["email"]
    ]

    assert [one.status for one in redeemed] == [204, 409]
    assert redeemed[1].code == "MEMBER_EXISTS"
    assert (seen["password_set"], seen["active"]) == (False, True)
    assert (await sign_in(office)).json["reviewer"]["tenant_id"] == ACME


async def test_failed_sign_ins_are_asked_to_no_tenant_that_only_invited_the_address(office: Office) -> None:
    squatter = await office.front.sign_in(tenant_id=GLOBEX)
    await squatter.ask("POST", MEMBERS, json=VICTIM)

    unknown = await sign_in(office, "a wrong password")
    results = [await failures(office, tenant_id) for tenant_id in (GLOBEX, PLATFORM)]
    assert results == [0, 1]
    member = await office.add(VICTIM["email"])
    known = await sign_in(office, "a wrong password")

    assert (unknown.status, unknown.json["detail"]) == (known.status, known.json["detail"])
    assert await failures(office, GLOBEX) == 0
    assert await failures(office, PLATFORM) == 1
    (row,) = await office.front.stores.audit_log.page(
        ACME, AuditFilter(action="reviewer.sign_in_failed"), limit=5
    )
    assert row.subject_id == member.reviewer_id


async def withdraw(asking: SignedIn, invited: Response) -> Response:
    """Withdraw an invitation."""
    return await asking.ask("DELETE", f"{MEMBERS}/{invited.json['reviewer_id']}")


async def test_a_withdrawn_invitation_is_void_and_its_address_free(office: Office) -> None:
    owner = await office.front.sign_in()
    invited = await owner.ask("POST", MEMBERS, json=VICTIM)

    withdrawn = await withdraw(owner, invited)
    listed = (await owner.ask("GET", MEMBERS)).body.decode()
    again = await withdraw(owner, invited)
    redeemed = await redeem(office, invited)
    invited_again = await owner.ask("POST", MEMBERS, json=VICTIM)

    assert (withdrawn.status, again.status) == (204, 404)
    assert VICTIM["email"] not in listed
    assert redeemed.code == "CREDENTIALS_INVALID"
    assert invited_again.status == 201
    assert invited_again.json["reviewer_id"] != invited.json["reviewer_id"]
    assert (await redeem(office, invited_again)).status == 204
    rows = await office.front.stores.audit_log.page(ACME, AuditFilter(action="member."), limit=9)
    assert [str(row.action) for row in rows] == ["member.invited", "member.suspended", "member.invited"]
    assert rows[1].context["changes"] == {"active": False, "withdrawn": True}


async def test_a_redeemed_invitation_is_not_withdrawn(office: Office) -> None:
    owner = await office.front.sign_in()
    invited = await owner.ask("POST", MEMBERS, json=VICTIM)
    await redeem(office, invited)

    response = await withdraw(owner, invited)

    assert (response.status, response.code) == (409, "MEMBER_EXISTS")
    assert (await sign_in(office)).status == 201


async def test_only_managers_of_the_tenant_withdraw_and_only_owners_an_owners(office: Office) -> None:
    owner, admin = await office.front.sign_in(), await office.front.sign_in(Role.ADMIN)
    outsider, reviewer = (
        await office.front.sign_in(tenant_id=GLOBEX),
        await office.front.sign_in(Role.REVIEWER),
    )
    invited = await owner.ask("POST", MEMBERS, json=VICTIM | {"role": "OWNER"})

    responses = [await withdraw(one, invited) for one in (outsider, reviewer, admin, owner)]

    assert [one.status for one in responses] == [404, 403, 403, 204]


async def invited_token(stage: Stage, tenant_id: TenantId) -> str:
    """The token of an invitation of the same address to a tenant."""
    new_member = NewMember(tenant_id, VICTIM["email"], "A Victim", Role.REVIEWER)
    request = RequestName(derive_id("inv", tenant_id), "f" * 64)
    return (await invite(stage.people, new_member, request, OPERATOR)).token or ""


async def test_of_two_tenants_that_redeem_an_address_at_once_one_gets_it(stage: Stage) -> None:
    tokens = [await invited_token(stage, tenant_id) for tenant_id in (ACME, GLOBEX)]
    reset = ResetPassword(stage.people, stage.limits)

    results = await asyncio.gather(
        *(reset(token, f"seven otters cross bridge {n}", OPERATOR) for n, token in enumerate(tokens)),
        return_exceptions=True,
    )

    refused = [one for one in results if isinstance(one, Refused)]
    assert [one.refusal.code for one in refused] == [ProblemCode.MEMBER_EXISTS]
    winner = results.index(None)
    found = await find_by_email(stage.people, VICTIM["email"])
    assert found is not None
    assert found.reviewer.tenant_id == (ACME, GLOBEX)[winner]


async def test_a_binding_that_no_password_followed_ends(stage: Stage) -> None:
    tokens = [await invited_token(stage, tenant_id) for tenant_id in (ACME, GLOBEX)]
    reset = ResetPassword(stage.people, stage.limits)
    interrupted = await find_in_tenant(stage.people, ACME, VICTIM["email"])
    await bind_address(stage.people, interrupted.reviewer)

    with pytest.raises(Refused):
        await reset(tokens[1], "seven otters cross bridges", OPERATOR)
    stage.now += COUNTS_AS_BOUND
    await reset(tokens[1], "seven otters cross bridges", OPERATOR)

    with pytest.raises(Refused):
        await reset(tokens[0], "seven otters cross bridges", OPERATOR)


async def test_the_command_line_adds_no_second_member_who_signs_in_with_an_address(stage: Stage) -> None:
    token = await invited_token(stage, GLOBEX)
    new_member = NewMember(ACME, VICTIM["email"], "A Victim", Role.OWNER)

    await add_with_password(stage.people, new_member, OPERATOR)

    with pytest.raises(Refused) as response:
        await ResetPassword(stage.people, stage.limits)(token, "seven otters cross bridges", OPERATOR)
    assert response.value.refusal.code is ProblemCode.MEMBER_EXISTS
    with pytest.raises(Refused):
        await add_with_password(
            stage.people, NewMember(GLOBEX, new_member.email, "Other", Role.OWNER), OPERATOR
        )


async def test_the_operator_frees_an_address_that_the_wrong_tenant_bound(stage: Stage) -> None:
    tokens = {tenant_id: await invited_token(stage, tenant_id) for tenant_id in (ACME, GLOBEX)}
    reset = ResetPassword(stage.people, stage.limits)
    await reset(tokens[GLOBEX], PASSWORD, OPERATOR)
    cookie = (await stage.sign_in(VICTIM["email"])).cookie

    removed = await remove_member(stage.people, GLOBEX, VICTIM["email"], OPERATOR)

    with pytest.raises(Unauthenticated):
        await stage.recognise(cookie)
    with pytest.raises(NotFound):
        await find_in_tenant(stage.people, GLOBEX, VICTIM["email"])
    await reset(tokens[ACME], "seven otters cross the bridge", OPERATOR)
    found = await find_by_email(stage.people, VICTIM["email"])
    assert found is not None
    assert found.reviewer.tenant_id == ACME
    (row,) = [one for one in await stage.rows(GLOBEX) if one.action == "member.suspended"]
    assert (row.subject_id, row.actor_id) == (removed.reviewer_id, "operator")
