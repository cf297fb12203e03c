"""The console's pages of keys, members and settings without a browser: states, offers, escaping."""

import re
from typing import Any, Final

import pytest
from markupsafe import escape

from app.configuration.front import RateLimits
from schemas.people import Factor, Role
from tests.builders import NOW
from tests.http.console import enter, open_page
from tests.http.support import Front, SignedIn, open_front

KEYS: Final = "/console/api-keys"
MEMBERS: Final = "/console/members"
MEMBERS_ROUTE: Final = "/v1/control/members"
CANARY: Final = '<img src=x onerror="alert(1)">'
SHOWN_CANARY: Final = "&lt;img src=x onerror"


async def make_key(who: SignedIn, **changes: Any) -> Any:
    """Make a live key."""
    body = {"name": "integration", "expires_at": "never", **changes}
    answer = await who.ask("POST", "/v1/control/api-keys", json=body)
    assert answer.status == 201, answer.body
    return answer.json


async def page_of(who: SignedIn, path: str) -> str:
    """A page as text."""
    answer = await open_page(who, path)
    assert answer.status == 200, answer.body
    return answer.body.decode()


async def test_a_key_is_shown_in_its_mode_without_its_secret(front: Front) -> None:
    who = await enter(front)
    key = await make_key(who, name=CANARY)

    live, test = await page_of(who, KEYS), await page_of(who, f"{KEYS}?livemode=false")

    assert f'data-key="{key["key_id"]}"' in live
    assert key["key_id"] not in test
    assert key["api_key"] not in live
    assert (CANARY in live, SHOWN_CANARY in live) == (False, True)


async def test_only_a_key_that_works_can_be_rotated_or_revoked(front: Front) -> None:
    who = await enter(front)
    key = await make_key(who)
    path = f"/v1/control/api-keys/{key['key_id']}"

    active = await page_of(who, KEYS)
    await who.ask("DELETE", path)
    revoked = await page_of(who, KEYS)

    assert (f'data-path="{path}"' in active, f'data-path="{path}/rotate"' in active) == (True, True)
    assert path not in revoked
    assert "Revoked" in revoked


async def test_further_keys_are_a_link_away(front: Front) -> None:
    who = await enter(front)
    for number in range(26):
        await make_key(who, name=f"key {number}")

    first = await page_of(who, KEYS)
    following = first.partition(f'href="{KEYS}?cursor=')[2].partition('"')[0]
    second = await page_of(who, f"{KEYS}?cursor={following}")

    assert (first.count("data-key="), second.count("data-key=")) == (25, 1)


def acts_of(page: str, member: str) -> set[str]:
    """What a page offers to do about a member."""
    entry = page.partition(f'data-member="{member}"')[2].partition("</li>")[0]
    return set(re.findall(r'data-opens="(\w+)"', entry))


async def enrolled(who: SignedIn) -> str:
    """The id of the member, a factor in use."""
    factor = Factor(factor_id="mfa_1", sealed_seed="s", confirmed_at=NOW, last_step=1, recovery_hashes=())
    await who.change_member(factor=factor, password_hash="h")  # noqa: S106 - no password
    return str(who.member.reviewer_id)


async def test_the_page_of_members_offers_what_the_routes_allow(front: Front) -> None:
    owner, admin, other = [await enter(front, role) for role in (Role.OWNER, Role.ADMIN, Role.OWNER)]
    reviewer = await enrolled(await enter(front, Role.REVIEWER))
    body = {"email": "new@acme.example", "name": CANARY, "role": "REVIEWER"}
    invited = (await owner.ask("POST", MEMBERS_ROUTE, json=body)).json

    page, of_admin = await page_of(owner, MEMBERS), await page_of(admin, MEMBERS)

    everything = {"change_role", "suspend", "reset_factor"}
    assert (acts_of(page, reviewer), acts_of(of_admin, reviewer)) == (everything, everything)
    assert acts_of(page, invited["reviewer_id"]) == {"change_role", "withdraw"}
    assert acts_of(page, owner.member.reviewer_id) == {"change_role"}
    assert acts_of(of_admin, admin.member.reviewer_id) == set()
    assert acts_of(of_admin, other.member.reviewer_id) == set()
    assert ('value="OWNER"' in page, 'value="OWNER"' in of_admin) == (True, False)
    assert (CANARY in page, SHOWN_CANARY in page, invited["invitation_token"] in page) == (False, True, False)


async def test_only_a_second_person_is_offered_to_confirm_a_reset(front: Front) -> None:
    owner, admin = await enter(front), await enter(front, Role.ADMIN)
    reviewer = await enrolled(await enter(front, Role.REVIEWER))

    await owner.ask("POST", f"{MEMBERS_ROUTE}/{reviewer}/reset-factor")

    assert acts_of(await page_of(owner, MEMBERS), reviewer) == {"change_role", "suspend"}
    assert acts_of(await page_of(admin, MEMBERS), reviewer) == {"change_role", "suspend", "confirm_reset"}


async def test_settings_are_shown_as_they_stand_with_their_version(front: Front) -> None:
    who = await enter(front)
    changes = {"four_eyes": "ALWAYS", "retention": {"legal_hold": ["customer-1"], "biometric_days": 7}}
    changed = await who.ask("PATCH", "/v1/control/settings", json=changes)

    page = await page_of(who, "/console/settings")

    assert changed.status == 200
    assert f'data-seen="{escape(changed.headers["ETag"])}"' in page
    assert '<option value="ALWAYS" selected>' in page
    assert re.search(r'name="retention.biometric_days" value="7"', page)
    assert ">customer-1</textarea>" in page


@pytest.mark.parametrize("limits", [None, RateLimits(key=77)])
async def test_rate_limits_are_shown_where_there_are_any(limits: RateLimits | None) -> None:
    async with open_front(rate_limits=limits) as front:
        page = await page_of(await enter(front), "/console/settings")

    assert ('name="rate_limits.key" value="77"' in page) == (limits is not None)
    assert ("limits no rates" in page) == (limits is None)


@pytest.mark.parametrize("path", [KEYS, MEMBERS, "/console/settings"])
async def test_what_changes_something_waits_for_scripts(front: Front, path: str) -> None:
    page = await page_of(await enter(front), path)
    content = page.partition("<main")[2].partition("</main>")[0]

    shown = re.sub(
        r"(?s)<dialog.*?</dialog>|<form[^>]* hidden.*?</form>|<div[^>]* hidden.*?</div>", "", content
    )
    assert re.findall(r"<button(?![^>]* hidden)[^>]*>", shown) == []
