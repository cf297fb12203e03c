"""Which passwords are accepted (G50, S26)."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zxcvbn.frequency_lists import FREQUENCY_LISTS

from schemas.problems import ProblemCode, Refused
from streams.access.password_rules import (
    MAX_LENGTH,
    MIN_LENGTH,
    is_common,
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


def test_a_refused_password_is_told_at_its_place() -> None:
    with pytest.raises(Refused) as told:
        require_acceptable("short", EMAIL, "/new_password")

    assert told.value.refusal.code is ProblemCode.VALIDATION_FAILED
    assert [error.pointer for error in told.value.refusal.errors] == ["/new_password"]


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
    assert complaint("k7#Qz!w" * 20, "a@b.example") is not None
    assert complaint(("k7#Qz!wPm2$x" + "ärger und freude " * 8)[:length]) is None


@pytest.mark.parametrize("length", [0, 1, MIN_LENGTH - 1, MAX_LENGTH + 1, 1024])
def test_s26_a_password_of_another_length_is_refused(length: int) -> None:
    assert complaint(("k7#Qz!wPm2$x" + "ärger und freude " * 80)[:length]) is not None


@pytest.mark.parametrize(
    "password",
    [
        "password1234", "P@ssw0rd2024!", "welcomewelcome", "123456789012", "abcdefghijkl", "zyxwvutsrqpo",
        "aaaaaaaaaaaa", "abcabcabcabc", "qwertyuiop[]", "1q2w3e4r5t6y", "Iloveyou1234", "letmein12345!",
        "Admin@123456", "changeme2026!!", "correcthorsebatterystaple", "MonkeyDragon1", "aaaaaabbbbbb",
        "1qaz2wsx3edc", "Summer2026!!!", "passwordpasswordpassword", "12345qwertasd", "147258369147",
        "zaq1xsw2cde3x", "asdf;lkjqwer", "international!", "jessica-michael-85",
    ],
)  # fmt: skip
def test_s26_a_common_password_is_refused(password: str) -> None:
    assert complaint(password) is not None


def test_s26_none_of_the_three_thousand_commonest_is_accepted_nor_said_twice() -> None:
    commonest = FREQUENCY_LISTS["passwords"][:3000]

    assert len(set(commonest)) == 3000
    assert [one for one in commonest if complaint(one) is None] == []
    assert [one for one in commonest if 2 * len(one) >= MIN_LENGTH and complaint(one + one) is None] == []


@pytest.mark.parametrize("decoration", ["2026!!", "123456", "-----1", "!1!2!3"])
def test_s26_a_common_word_with_digits_and_signs_is_refused(decoration: str) -> None:
    enough = MIN_LENGTH - len(decoration)
    words = [one for one in FREQUENCY_LISTS["passwords"][:3000] if one.isalpha() and len(one) >= enough]

    assert len(words) > 1000
    assert [one for one in words if complaint(one.title() + decoration) is None] == []


@pytest.mark.parametrize(
    "password",
    ["my grace.hopper+x@navy.example", "XX GRACE.HOPPER XX", "i love Veristream", "old navy boats ahoy"],
)
def test_s26_a_password_with_the_address_or_the_service_in_it_is_refused(password: str) -> None:
    assert complaint(password) is not None


def test_a_short_part_of_the_address_may_be_in_a_password() -> None:
    assert complaint("nine green umbrellas", "en@gr.example") is None


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
    assert is_common(password.casefold()) in {True, False}
