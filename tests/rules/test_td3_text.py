"""Recognised text to lines: what is put right, and what must never be."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.verification.readers.td3_lines import Td3Fields, compose, verify
from streams.verification.readers.td3_text import (
    Repair,
    RepairKind,
    SecondLine,
    first_line,
    normalise,
    second_line,
)
from tests.rules.test_td3_lines import FIRST, SECOND

PLAIN = "34679"
"""Digits no letter is taken for, so the check digits have nothing to choose from."""
UNAMBIGUOUS = "X347946A3"


def line(number: str = "L898902C3", optional: str = "ZE184226B") -> str:
    return compose(Td3Fields("A", "B", number, "740812", "F", "320415", optional=optional))[1]


def read(text: str) -> SecondLine:
    found = second_line(text)
    assert found is not None
    return found


@pytest.mark.parametrize("mark", ["\u304f", "\u3008", "\u2039", "\uff1c", "\u2264"])
def test_a_look_alike_of_the_filler_is_a_filler(mark: str) -> None:
    assert normalise(FIRST.replace("<", mark)) == FIRST


@pytest.mark.parametrize("mark", ["\u00ab", "\u300a", "\u226a"])
def test_a_double_mark_is_two_fillers(mark: str) -> None:
    assert normalise(FIRST.replace("<<", mark)) == FIRST


def test_spaces_and_stray_points_are_dropped() -> None:
    assert normalise(" p<uto eriksson<<anna<maria.") == "P<UTOERIKSSON<<ANNA<MARIA"


def test_a_stroke_keeps_its_place() -> None:
    assert normalise("P<|TO") == "P<ITO"


def test_a_line_as_it_was_read_is_not_repaired() -> None:
    assert read(SECOND) == SecondLine(SECOND, verify(SECOND), ())


@pytest.mark.parametrize(
    ("place", "seen"),
    [(13, "7"), (14, "A"), (15, "O"), (18, "Z"), (21, "I"), (22, "Z"), (24, "A"), (43, "O")],
)
def test_letters_among_digits_are_put_right_only_when_they_look_like_one(place: int, seen: str) -> None:
    typed = read(SECOND[:place] + seen + SECOND[place + 1 :])
    expected = {"O": "0", "Z": "2", "I": "1"}.get(seen, seen)
    assert typed.text[place] == expected


@pytest.mark.parametrize("place", [10, 11, 12])
def test_a_nought_in_the_nationality_is_an_o(place: int) -> None:
    changed = SECOND[:place] + "0" + SECOND[place + 1 :]
    assert read(changed).text[place] == "O"


def test_a_repair_by_position_is_recorded() -> None:
    typed = read(SECOND[:12] + "0" + SECOND[13:])
    assert typed.repairs == (Repair(RepairKind.ALPHABET, 12),)


def test_one_choice_among_look_alikes_is_taken_and_recorded() -> None:
    true = line("X3S7943A7", "")
    read_as = true.replace("X3S", "X35")
    assert read(read_as) == SecondLine(true, verify(true), (Repair(RepairKind.CHECK_DIGITS, 2),))


def test_several_choices_are_none() -> None:
    true = line("L898902C3", "")
    misread = read("LB98902C3" + true[9:])
    assert not misread.holds
    assert misread.repairs == ()


def test_an_error_no_look_alike_explains_stays() -> None:
    misread = read("4" + line(UNAMBIGUOUS, "")[1:])
    assert (misread.holds, misread.repairs) == (False, ())


@pytest.mark.parametrize("slip", [-2, -1, 1, 2])
def test_fillers_of_the_optional_field_may_be_missing_or_extra(slip: int) -> None:
    short = SECOND.replace("<<<<<", "<" * (5 + slip))
    assert read(short).text == SECOND


@pytest.mark.parametrize("slip", [-3, 3])
def test_more_of_them_may_not(slip: int) -> None:
    assert second_line(SECOND.replace("<<<<<", "<" * (5 + slip))) is None


def test_a_character_lost_elsewhere_is_not_made_up_for() -> None:
    assert (found := second_line(SECOND[1:])) is None or not found.holds


def test_a_line_of_a_smaller_document_is_not_one_of_a_passport() -> None:
    """A TD2 line of 36, filled up to 44, would satisfy every check digit."""
    short = "D231458907UTO7408122F1204159<<<<<<<6"
    assert second_line(short) is None


@pytest.mark.parametrize("text", ["", "NATIONALITYUTOPIANDATEOFBIRTHTWELVEAUGUST", "9" * 44, "<" * 44])
def test_any_other_text_is_no_second_line(text: str) -> None:
    found = second_line(text)
    assert found is None or not found.holds or text == "9" * 44


def test_a_first_line_is_taken_as_it_is() -> None:
    assert first_line(FIRST) == FIRST


@pytest.mark.parametrize("length", [40, 42, 46])
def test_fillers_behind_the_names_may_be_missing_or_extra(length: int) -> None:
    assert first_line(FIRST.rstrip("<").ljust(length, "<")) == FIRST


def test_scraps_between_the_fillers_are_fillers() -> None:
    assert first_line(FIRST[:34] + "K<<C<<<K<<") == FIRST


def test_digits_among_the_names_are_letters() -> None:
    assert first_line(FIRST.replace("O", "0")) == FIRST


@pytest.mark.parametrize(
    "text", ["I" + FIRST[1:], FIRST[:39], FIRST + "<<<", "P<UTO" + "ERIKSSON" * 5, FIRST.replace("<", "7")]
)
def test_any_other_text_is_no_first_line(text: str) -> None:
    assert first_line(text) is None


NUMBERS = st.text(PLAIN + "ACEFHJKMNPRTUVWXY", min_size=9, max_size=9)


@given(NUMBERS, st.integers(0, 8), st.sampled_from(PLAIN + "ACEFHJKMNPRTUVWXY"))
def test_a_number_without_look_alikes_is_never_changed(number: str, place: int, other: str) -> None:
    misread = number[:place] + other + number[place + 1 :]
    found = second_line(misread + line(number, "")[9:])
    assert found is None or found.text[:9] == misread


@given(st.text(string.digits + string.ascii_uppercase + "<", min_size=40, max_size=46))
def test_whatever_is_read_a_line_says_of_itself_what_is_true(text: str) -> None:
    found = second_line(text)
    assert found is None or (len(found.text) == 44 and found.checks == verify(found.text))


@given(st.text(string.digits + string.ascii_uppercase, min_size=9, max_size=9), st.data())
def test_a_repaired_line_always_says_so(number: str, data: st.DataObject) -> None:
    true = line(number, "")
    place = data.draw(st.integers(0, 8))
    seen = true[:place] + data.draw(st.sampled_from("0OQD1IL2Z5S8B6G")) + true[place + 1 :]
    found = second_line(seen)
    assert found is None or found.text == seen or found.repairs
