"""The console's pages of keys, members and settings without a browser: states, offers, escaping."""

from typing import Any, Final

from tests.http.console import enter, open_page
from tests.http.support import Front, SignedIn

KEYS: Final = "/console/api-keys"
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
