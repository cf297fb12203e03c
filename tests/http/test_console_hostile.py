"""Pages of the console of one thing each: what was written is text on them, and a role sees its own."""

import re

from app.http.bodies import BodyBudget
from app.http.server import endpoints_of
from app.web.site import set_apart
from schemas.people import PERMISSIONS_OF, Permission, Role
from tests.http.console import enter, open_page
from tests.http.hostile import Texts, canary, open_hostile, pages_of


async def test_whatever_was_written_is_text_on_every_page() -> None:
    async with open_hostile() as one:
        said, wrong = set[str](), []
        for path in pages_of(one):
            answer = await open_page(one.owner, path)
            assert answer.status == 200, path
            page = Texts(answer.body.decode())
            wrong += [f"{path}: {what}" for what in (*page.running, *page.turning)]
            text = " ".join(page.said)
            said |= {name for name in one.fields if f'<img src=x onerror="{name}">' in text}
        endpoints = endpoints_of(one.front.ports, one.front.settings, BodyBudget(1))

    assert wrong == []
    assert one.fields - said == set()
    with_id = {page.path for page in endpoints if page.family == "Console" and "{" in page.path}
    assert {re.sub(r"\{\w+\}", "", path) for path in with_id} <= {
        re.sub(r"[a-z]+_[0-9a-z]{26}", "", path) for path in one.paths
    }


PLACES = {
    "flows": Permission.VERIFICATION_FLOWS_READ,
    "review-cases": Permission.CASES_READ,
    "sessions": Permission.VERIFICATIONS_READ,
    "subjects": Permission.VERIFICATIONS_READ,
    "transactions": Permission.TRANSACTIONS_READ,
    "verifications": Permission.VERIFICATIONS_READ,
    "webhooks": Permission.WEBHOOKS_MANAGE,
}
"""What a role needs to see a page of one thing, by its place."""


async def test_a_role_is_shown_the_pages_of_things_that_its_permissions_open() -> None:
    async with open_hostile() as one:
        found, meant = {}, {}
        for role in Role:
            who = await enter(one.front, role)
            for path in one.paths:
                allowed = PLACES[re.split(r"[/?]", path)[2]] in PERMISSIONS_OF[role]
                meant[role, path] = 200 if allowed else 403
                found[role, path] = (await open_page(who, path)).status

    assert found == meant
    assert {re.split(r"[/?]", path)[2] for path in one.paths} == set(PLACES)


def test_a_value_in_a_sentence_does_not_change_the_order_of_its_words() -> None:
    assert set_apart(canary("name", 40)) == '<img src=x onerror="name">' + "W" * 13
    assert set_apart("مرحب") == "\u2068مرحب\u2069"
    assert set_apart("\u2069مرحب") == "\u2068مرحب\u2069"
    assert [set_apart(value) for value in ("Ada Obi", "Ọmọ́lará", 7)] == ["Ada Obi", "Ọmọ́lará", 7]
