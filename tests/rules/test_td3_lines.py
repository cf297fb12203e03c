"""The two lines of a TD3 zone: the vectors of Doc 9303, and what must hold of every line."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.verification.readers.td3_lines import CHECKED, Td3Fields, check_digit, compose, verify

FIRST = "P<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<<<<<<<<<"
SECOND = "L898902C36UTO7408122F1204159ZE184226B<<<<<10"
"""The specimen of Doc 9303 part 4 appendix B."""

ALPHABET = string.digits + string.ascii_uppercase + "<"
ZONE_TEXT = st.text(ALPHABET, min_size=1, max_size=39)


@pytest.mark.parametrize(
    ("text", "digit"),
    [
        ("520727", "3"),  # part 3 section 4.9, example 1
        ("AB2134<<<", "5"),  # part 3 section 4.9, example 2
        ("L898902C3", "6"),
        ("740812", "2"),
        ("120415", "9"),
        ("ZE184226B<<<<<", "1"),
        ("<<<<<<<<<<<<<<", "0"),
    ],
)
def test_a_published_check_digit(text: str, digit: str) -> None:
    assert check_digit(text) == digit


def test_the_specimen_of_doc_9303_is_composed_character_by_character() -> None:
    fields = Td3Fields("ERIKSSON", "ANNA<MARIA", "L898902C3", "740812", "F", "120415", optional="ZE184226B")
    assert compose(fields) == (FIRST, SECOND)


def test_the_specimen_holds() -> None:
    assert set(verify(SECOND).values()) == {True}


def test_an_empty_personal_number_may_have_a_filler_as_its_check_digit() -> None:
    """Part 4 section 4.2.2.2, position 43."""
    line = compose(Td3Fields("A", "B", "L898902C3", "740812", "F", "120415"))[1]
    assert line[42] == "<"
    assert verify(line)["personal_number"]


def test_an_empty_personal_number_may_have_a_zero_as_its_check_digit() -> None:
    line = compose(Td3Fields("A", "B", "L898902C3", "740812", "F", "120415"))[1]
    assert set(verify(line[:42] + "0" + line[43]).values()) == {True}


def test_a_filled_personal_number_may_not() -> None:
    assert not verify(SECOND[:42] + "<" + SECOND[43])["personal_number"]


@given(ZONE_TEXT)
def test_a_check_digit_is_a_digit(text: str) -> None:
    assert check_digit(text) in string.digits


@given(ZONE_TEXT, st.data())
def test_another_digit_in_any_place_changes_the_check_digit(text: str, data: st.DataObject) -> None:
    """Weights 7, 3 and 1 have no common factor with 10, so no single digit can change unnoticed."""
    place = data.draw(st.integers(0, len(text) - 1))
    old, new = data.draw(st.permutations(string.digits).map(lambda order: (order[0], order[1])))
    one, other = (text[:place] + digit + text[place + 1 :] for digit in (old, new))
    assert check_digit(one) != check_digit(other)


@given(ZONE_TEXT)
def test_fillers_behind_a_text_do_not_count(text: str) -> None:
    assert check_digit(text + "<<<") == check_digit(text)


NAMES = st.text(string.ascii_uppercase, min_size=1, max_size=30)
FIELDS = st.builds(
    Td3Fields,
    surname=NAMES,
    given_names=NAMES | st.just(""),
    number=st.text(string.ascii_uppercase + string.digits, min_size=1, max_size=9),
    birth=st.dates().map(lambda day: f"{day:%y%m%d}"),
    sex=st.sampled_from("MF<"),
    expiry=st.dates().map(lambda day: f"{day:%y%m%d}"),
    optional=st.text(string.ascii_uppercase + string.digits, max_size=14),
)


@given(FIELDS)
def test_every_composed_pair_is_two_lines_of_44(fields: Td3Fields) -> None:
    assert [len(line) for line in compose(fields)] == [44, 44]


@given(FIELDS)
def test_every_composed_line_holds(fields: Td3Fields) -> None:
    assert set(verify(compose(fields)[1]).values()) == {True}


@given(FIELDS, st.sampled_from(sorted(CHECKED)), st.integers(1, 9))
def test_a_wrong_check_digit_is_noticed(fields: Td3Fields, name: str, step: int) -> None:
    line = compose(fields)[1]
    place = CHECKED[name][1]
    if line[place] == "<":
        step, digit = 0, "7"
    else:
        digit = str((int(line[place]) + step) % 10)
    assert not verify(line[:place] + digit + line[place + 1 :])[name]
