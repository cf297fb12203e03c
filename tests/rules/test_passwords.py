"""Which passwords are accepted (G50, R5, S26)."""

import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zxcvbn.frequency_lists import FREQUENCY_LISTS

from schemas.problems import ProblemCode, Refused
from streams.sign_in.password_rules import (
    MAX_LENGTH,
    MIN_LENGTH,
    normal_password,
    password_bytes,
    require_acceptable,
)

EMAIL = "grace.hopper+x@navy.example"


def complaint(password: str, email: str = EMAIL) -> str | None:
    """What is said against a password."""
    try:
        require_acceptable(password, email, "/new_password")
    except Refused as refused:
        return refused.refusal.detail
    return None


def test_a_refused_password_is_reported_at_its_place() -> None:
    with pytest.raises(Refused) as response:
        require_acceptable("short", EMAIL, "/new_password")

    assert response.value.refusal.code is ProblemCode.VALIDATION_FAILED
    assert [error.pointer for error in response.value.refusal.errors] == ["/new_password"]


@pytest.mark.parametrize(
    "password",
    [
        "nine green umbrellas", "xK9#mQ2$vL5!", "пароль-и-дружба-42", "correct cactus battery",
        "🦊🐙🦑🦀🐚🦈🐬🐳🐋🐟🐠🐡", "dragon monkey sunshine princess", "           z1y2 x3",
    ],
)  # fmt: skip
def test_s26_any_characters_make_a_password(password: str) -> None:
    assert complaint(password) is None


@pytest.mark.parametrize("length", [MIN_LENGTH, MAX_LENGTH])
def test_s26_the_shortest_and_the_longest_password_are_accepted(length: int) -> None:
    assert complaint(("k7#Qz!wPm2$x" + "ärger und freude " * 8)[:length]) is None


@pytest.mark.parametrize("length", [0, 1, MIN_LENGTH - 1, MAX_LENGTH + 1, 1024])
def test_s26_a_password_of_another_length_is_refused(length: int) -> None:
    assert complaint(("k7#Qz!wPm2$x" + "ärger und freude " * 80)[:length]) is not None


@pytest.mark.parametrize("spelled", [str.lower, str.upper, str.title])
def test_s26_every_listed_password_is_refused_whatever_its_case(spelled: Callable[[str], str]) -> None:
    listed = FREQUENCY_LISTS["passwords"]

    assert len(listed) > 20_000
    assert [one for one in listed if complaint(spelled(one)) is None] == []


@pytest.mark.parametrize("listed", ["123qweasdzxc", "1q2w3e4r5t6y", "Qwerty123456", "QAZWSXEDCRFV"])
def test_s26_a_listed_password_of_enough_characters_is_called_common(listed: str) -> None:
    assert "too common" in (complaint(listed) or "")


@pytest.mark.parametrize(
    "password",
    [
        "aaaaaaaaaaaa", "abcabcabcabc", "abcdefghijkl", "passwordpasswordpassword", "Summer2026!!!",
        "147258369147", "correcthorsebatterystaple", "old navy boats ahoy", "hopper of the example",
        "navy.example navy.example",
    ],
)  # fmt: skip
def test_no_rule_is_about_repetition_patterns_words_or_the_domain(password: str) -> None:
    assert complaint(password) is None


@pytest.mark.parametrize(
    "password",
    [
        "my grace.hopper+x@navy.example",
        "XX GRACE.HOPPER+X XX",
        "i love Veristream",
        "VERISTREAM 2026",
    ],
)
def test_s26_a_password_with_the_address_or_the_service_in_it_is_refused(password: str) -> None:
    assert complaint(password) is not None


@pytest.mark.parametrize(("local", "refused"), [("ing", False), ("ming", True), ("MING", True)])
def test_the_part_before_the_at_sign_counts_from_four_characters_on(local: str, refused: bool) -> None:  # noqa: FBT001
    assert (complaint("nine swimming pools", f"{local}@gr.example") is not None) is refused


def test_a_short_address_counts_as_a_whole() -> None:
    assert complaint("nine ab@c.de umbrellas", "ab@c.de") is not None


def test_s26_composed_and_decomposed_forms_are_one_password() -> None:
    composed = "žluťoučký kůň úpěl"
    decomposed = unicodedata.normalize("NFD", composed)

    assert composed != decomposed
    assert password_bytes(composed) == password_bytes(decomposed)


def test_s26_length_counts_after_normalisation() -> None:
    decomposed = unicodedata.normalize("NFD", "é" * MAX_LENGTH)

    assert len(decomposed) > MAX_LENGTH
    assert len(normal_password(decomposed)) == MAX_LENGTH


@given(st.text(alphabet=st.characters(), max_size=300))
def test_s26_nothing_of_a_password_is_cut_off(password: str) -> None:
    more = normal_password(password) + "x"

    assert password_bytes(more) == password_bytes(password) + b"x"


@given(st.text(max_size=200))
def test_every_text_can_be_judged(password: str) -> None:
    assert complaint(password, password) is None or complaint(password, password)
