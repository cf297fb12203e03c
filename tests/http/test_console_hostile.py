"""What people and machines wrote is text on every page of the console, and turns nothing round beside it."""

import re

from app.http.bodies import BodyBudget
from app.http.server import endpoints_of
from app.web.site import set_apart
from tests.http.console import open_page
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


def test_a_value_in_a_sentence_does_not_change_the_order_of_its_words() -> None:
    assert set_apart(canary("name", 40)) == '<img src=x onerror="name">' + "W" * 13
    assert set_apart("مرحب") == "\u2068مرحب\u2069"
    assert set_apart("\u2069مرحب") == "\u2068مرحب\u2069"
    assert [set_apart(value) for value in ("Ada Obi", "Ọmọ́lará", 7)] == ["Ada Obi", "Ọmọ́lará", 7]
