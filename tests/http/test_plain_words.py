"""A refused text is reported in words what it must be, and the command line refuses it in the same words."""

import re
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from app.cli.actions import reviewers, tenants
from app.http.bodies import BodyBudget
from app.http.examples import read_examples
from app.http.server import endpoints_of
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.people import Role
from tests.http.support import Front, build_body, open_front
from tests.http.test_permissions import TOKEN

SUBJECT = "Use 1 to 128 letters from A to Z, digits, and the characters . _ : @ - for a subject."
NAME = "Write a name of 1 to 120 characters, on one line."
EMAIL = "Write an e-mail address such as ada@acme.example, of at most 254 characters."

EXPRESSION = re.compile(r"pattern|\^|\[[a-z0-9]|\\[a-z]", re.IGNORECASE)
"""What betrays a regular expression."""


def spoiled(value: Any, wrong: str) -> Iterator[Any]:
    """The value once for each text in it, another text in its place."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from ({**value, name: changed} for changed in spoiled(one, wrong))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from ([*value[:number], changed, *value[number + 1 :]] for changed in spoiled(one, wrong))
    elif isinstance(value, str):
        yield wrong


async def test_no_request_is_refused_with_a_regular_expression(front: Front) -> None:
    said: set[str] = set()
    for endpoint in endpoints_of(front.ports, front.settings, BodyBudget(1)):
        if endpoint.body is None:
            continue
        example = read_examples().request(endpoint)
        for body in (one for wrong in ("", "\x01 ?\n", "x" * 5000) for one in spoiled(example, wrong)):
            try:
                endpoint.body.model_validate(body)
            except ValidationError as error:
                said |= {one["msg"] for one in error.errors()}

    assert len(said) > 10
    assert [one for one in said if EXPRESSION.search(one)] == []


@pytest.mark.parametrize("subject", ["", "Ada Obi", "ä", "x" * 129])
async def test_a_subject_is_refused_in_words(front: Front, subject: str) -> None:
    response = await front.submit(build_body(subject))

    assert (response.status, response.json["detail"]) == (422, SUBJECT)
    assert response.pointers == {"/subject_id": "VALIDATION_FAILED"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"email": "ada"}, EMAIL),
        ({"email": "a b@acme.example"}, EMAIL),
        ({"email": ""}, EMAIL),
        ({"name": " "}, NAME),
        ({"name": "A\nB"}, NAME),
    ],
)
async def test_an_address_or_a_name_is_refused_in_words(
    front: Front, changes: dict[str, str], said: str
) -> None:
    body = {"email": "ada@acme.example", "name": "Ada", "role": "REVIEWER", **changes}

    response = await (await front.sign_in()).ask("POST", "/v1/control/members", json=body)

    assert (response.status, response.json["detail"]) == (422, said)


async def test_a_wrong_kind_of_value_is_still_called_one(front: Front) -> None:
    response = await front.submit({**build_body(), "subject_id": 7})

    assert response.json["detail"] == "Input should be a valid string"


Command = Callable[[Settings], Coroutine[Any, Any, dict[str, str]]]

REFUSED: dict[str, tuple[Command, str]] = {
    "a tenant without a name": (lambda s: tenants.create_tenant(s, " "), f"NAME: {NAME}"),
    "a tenant of two lines": (lambda s: tenants.create_tenant(s, "A\nB"), f"NAME: {NAME}"),
    "a key without a name": (
        lambda s: tenants.create_key(
            s, "ten_x", name="", livemode=False, scopes=(), expires_days=None
        ),
        f"--name: {NAME}",
    ),
    "a reviewer whose address is none": (
        lambda s: reviewers.create_reviewer(s, "ten_x", email="ada", name=None, role=Role.OWNER),
        f"--email: {EMAIL}",
    ),
    "a reviewer without a name": (
        lambda s: reviewers.create_reviewer(s, "ten_x", email="a@b.example", name="", role=Role.OWNER),
        f"--name: {NAME}",
    ),
    "a reset of an address that is none": (
        lambda s: reviewers.reset_reviewer(s, "ten_x", "ada"), f"--email: {EMAIL}",
    ),
    "a removal of an address that is none": (
        lambda s: reviewers.remove_reviewer(s, "ten_x", "ada"), f"--email: {EMAIL}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
async def test_a_command_refuses_what_the_interface_refuses_and_makes_nothing(
    what: str, tmp_path: Path
) -> None:
    command, said = REFUSED[what]
    folder = tmp_path / "data"

    with pytest.raises(CannotStart) as refused:
        await command(Settings(data_dir=folder))

    assert str(refused.value) == said
    assert not folder.exists()


async def test_the_interface_refuses_the_name_of_a_tenant_in_the_words_of_the_command() -> None:
    async with open_front(operator_token=SecretStr(TOKEN)) as front:
        response = await front.ask("POST", "/v1/platform/tenants", TOKEN, json={"name": " "})

    assert (response.status, response.json["detail"]) == (422, NAME)
