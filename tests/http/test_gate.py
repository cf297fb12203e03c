"""Reviewers and the operator at the gate: the cookie, the factor, the role, the origin, the clock."""

from datetime import timedelta

import pytest

from schemas.people import PERMISSIONS_OF, Permission, Role
from tests.builders import GLOBEX
from tests.http.support import TEST, Front, now

PATH = "/v1/audit"


async def test_a_reviewer_with_the_factor_reads(front: Front) -> None:
    owner = await front.sign_in()

    assert (await owner.ask("GET", PATH)).status == 200
    assert (await owner.ask("GET", "/v1/verifications")).status == 200


async def test_without_the_factor_it_is_403_mfa_required(front: Front) -> None:
    owner = await front.sign_in(satisfied=False)

    response = await owner.ask("GET", PATH)

    assert (response.status, response.code) == (403, "MFA_REQUIRED")


@pytest.mark.parametrize("role", Role)
async def test_a_role_reads_verifications_exactly_when_it_may(front: Front, role: Role) -> None:
    member = await front.sign_in(role)

    response = await member.ask("GET", "/v1/verifications")

    may = Permission.VERIFICATIONS_READ in PERMISSIONS_OF[role]
    assert response.status == (200 if may else 403)
    assert may or ("VERIFICATIONS_READ" in response.json["detail"] and response.code == "PERMISSION_DENIED")


@pytest.mark.parametrize("role", Role)
async def test_every_role_reads_the_audit_log(front: Front, role: Role) -> None:
    assert (await (await front.sign_in(role)).ask("GET", PATH)).status == 200


async def test_an_idle_session_is_over_after_thirty_minutes(front: Front) -> None:
    owner = await front.sign_in()
    await owner.change(seen_at=now() - timedelta(minutes=30, seconds=1))

    assert (await owner.ask("GET", PATH)).status == 401


async def test_use_keeps_a_session_open(front: Front) -> None:
    owner = await front.sign_in()
    await owner.change(seen_at=now() - timedelta(minutes=29))

    assert [(await owner.ask("GET", PATH)).status for _ in range(2)] == [200, 200]


async def test_an_expired_session_is_401(front: Front) -> None:
    owner = await front.sign_in()
    await owner.change(expires_at=now())

    assert (await owner.ask("GET", PATH)).status == 401


async def test_an_ended_session_is_401(front: Front) -> None:
    owner = await front.sign_in()
    await owner.change_member(open_sessions=())

    assert (await owner.ask("GET", PATH)).status == 401


async def test_a_suspended_member_is_401_at_once(front: Front) -> None:
    owner = await front.sign_in()
    await owner.change_member(active=False)

    assert (await owner.ask("GET", PATH)).status == 401


@pytest.mark.parametrize("cookie", ["x", "", "a.b", "0" * 26 + "." + "A" * 43, "0" * 5000])
async def test_a_cookie_of_another_form_or_nobodys_is_401(front: Front, cookie: str) -> None:
    response = await front.ask("GET", PATH, None, headers={"Cookie": f"service_session={cookie}"})

    assert response.status == 401


async def test_a_cookie_with_another_secret_is_401(front: Front) -> None:
    owner, other = await front.sign_in(), await front.sign_in()
    mixed = owner.cookie.partition(".")[0] + "." + other.cookie.partition(".")[2]

    response = await front.ask("GET", PATH, None, headers={"Cookie": f"service_session={mixed}"})

    assert response.status == 401


async def test_two_cookies_are_none(front: Front) -> None:
    owner = await front.sign_in()
    pair = f"service_session={owner.cookie}"

    assert (await owner.ask("GET", PATH, headers={"Cookie": f"{pair}; {pair}"})).status == 401


async def test_a_key_counts_before_a_cookie(front: Front) -> None:
    foreign = await front.sign_in(tenant_id=GLOBEX)
    await front.submit(key=TEST)

    response = await foreign.ask("GET", PATH, headers={"Authorization": f"Bearer {TEST}"})

    assert len(response.json["events"]) == 1


async def test_a_reviewer_sees_both_modes_or_the_one_asked_for(front: Front) -> None:
    owner = await front.sign_in()
    await front.submit(key=TEST)

    seen = {
        asked: [row["livemode"] for row in (await owner.ask("GET", PATH + asked)).json["events"]]
        for asked in ("", "?livemode=false", "?livemode=true")
    }

    assert seen == {"": [False], "?livemode=false": [False], "?livemode=true": []}


async def test_a_livemode_that_is_none_is_refused(front: Front) -> None:
    owner = await front.sign_in()

    response = await owner.ask("GET", PATH + "?livemode=maybe")

    assert (response.status, response.code) == (422, "FILTER_INVALID")


async def test_another_tenants_reviewer_sees_nothing_of_ours(front: Front) -> None:
    made = await front.submit(key=TEST)
    foreign = await front.sign_in(tenant_id=GLOBEX)

    response = await foreign.ask("GET", f"/v1/verifications/{made.json['verification_id']}")

    assert response.status == 404
    assert (await foreign.ask("GET", "/v1/verifications")).json["verifications"] == []


@pytest.mark.parametrize("token", [None, "x"])
async def test_without_a_token_the_platforms_routes_do_not_exist(front: Front, token: str | None) -> None:
    unknown = await front.ask("GET", "/v1/platform/nothing", token)
    response = await front.ask("GET", "/v1/platform/catalog", token)

    own = ("instance", "request_id")
    assert response.status == unknown.status == 404
    assert {k: v for k, v in response.json.items() if k not in own} == {
        k: v for k, v in unknown.json.items() if k not in own
    }
