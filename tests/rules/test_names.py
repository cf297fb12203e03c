"""Names: analysed, scored and found on a list."""

import random
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.lists import MAX_NAME_CHARS, EntityKind, NameEntry
from schemas.screenings import PartKind, ScreeningTarget
from streams.names.analysis import analyse, consonants, to_ascii_words
from streams.names.index import NameIndex
from streams.names.matching import Thresholds, find_matches
from streams.names.scoring import score

PERSON, ORGANISATION, VESSEL = EntityKind.PERSON, EntityKind.ORGANISATION, EntityKind.VESSEL

THRESHOLD = Thresholds().possible

SAME = [
    (PERSON, "AL-TIKRITI, Ibrahim", "Ibrahim al-Tikriti"),
    (PERSON, "Mr. Aleksandr Petrovich Orlov", "Alexander Petrovich Orlov"),
    (PERSON, "Володимир Шевчук", "Volodymyr Shevchuk"),
    (PERSON, "ვახტანგ ბერიძე", "Vakhtang Beridze"),
    (PERSON, "AlisherKarimov", "Alisher Karimov"),
    (PERSON, "Nikolai Patr ovsky", "Nikolai Patrovsky"),
    (PERSON, "A. Velayat", "Ali Velayat"),
    (PERSON, "José Muñoz", "JOSE MUNOZ"),
    (PERSON, "一郎 田中", "田中 一郎"),
    (ORGANISATION, "Orlov Shipping Fund IV", "Orlov Shipping Fund 4"),
    (PERSON, "Abdul Aziz Nooristani", "'Abd al-Aziz al-Nuristani"),
    (PERSON, "John Qorvath SA", "John Qorvath"),
    (ORGANISATION, "OAO Gazstroy", "Open Joint Stock Company Gazstroy"),
    (ORGANISATION, "Zelmar Shipping Ltd", "ZELMAR SHIPPING COMPANY LIMITED"),
    (ORGANISATION, "A.B.C. Trading", "ABC Trading"),
    (ORGANISATION, "Brigade Forty-Four", "Brigade 44"),
    (ORGANISATION, "ОБЩЕСТВО С ОГРАНИЧЕННОЙ ОТВЕТСТВЕННОСТЬЮ «Заря»", "OOO Zarya"),  # noqa: RUF001 - Cyrillic
    (VESSEL, "MV Hellas Star", "Hellas Star"),
]

OTHER = [
    (PERSON, "Ibrahim Hassan al-Tikriti", "Ibrahim Hassan al-Mosuli"),
    (PERSON, "Rami Karimov", "Alisher Karimov"),
    (PERSON, "A. Velayat", "Omar Velayat"),
    (PERSON, "Thomas Moore", "Thomas Mario"),
    (PERSON, "Boris", "Boris Alexandrovich Orlov"),
    (ORGANISATION, "LXC Aviation", "LAU Aviation"),
    (ORGANISATION, "China National Pipeline Corporation", "China National Petroleum Corporation"),
    (ORGANISATION, "Brigade 44", "Brigade 45"),
    (PERSON, "田中一郎", "田中二郎"),
    (ORGANISATION, "Trading Company Ltd", "Zelmar Trading Company Ltd"),
]

HOSTILE = [
    "a" * MAX_NAME_CHARS,
    "ab " * 649 + "ab",
    "x\u0301" * 900,
    "👩‍👩‍👧 🏴‍☠️",
    "Аlеxаndеr Іvаnоv",  # noqa: RUF001 - Cyrillic
    "\u202eretep\u202c",
    "al bin ibn de la",
    "the of and",
    "?!()",
    "王",
    "ﷺ ﷽",
    "0",
]

_SYLLABLES = "ba ce di fo gu ha ji ke lo mu na pe ri so tu va wi xe yo zu"
SYLLABLES = _SYLLABLES.split()

words = st.lists(st.sampled_from(SYLLABLES), min_size=3, max_size=4, unique=True).map("".join)
names = st.lists(words, min_size=2, max_size=5, unique_by=lambda word: consonants(word)[:2])
"""Names whose words are unlike each other: each has a consonant or two of its own."""


@pytest.mark.parametrize(("kind", "query", "listed"), SAME)
def test_spellings_of_one_name_are_found(kind: EntityKind, query: str, listed: str) -> None:
    assert score(analyse(query, kind), analyse(listed, kind)).score >= THRESHOLD


@pytest.mark.parametrize(("kind", "query", "listed"), OTHER)
def test_names_that_contradict_each_other_are_not(kind: EntityKind, query: str, listed: str) -> None:
    assert score(analyse(query, kind), analyse(listed, kind)).score < THRESHOLD


def test_words_left_over_on_both_sides_are_listed_as_a_conflict() -> None:
    found = score(analyse("Ibrahim Tikriti", PERSON), analyse("Ibrahim Mosuli", PERSON))

    listed = {(part.query, part.listed): part.kind for part in found.parts()}
    assert listed == {
        ("ibrahim", "ibrahim"): PartKind.EXACT,
        ("tikriti", None): PartKind.CONFLICT,
        (None, "mosuli"): PartKind.CONFLICT,
    }


@given(words=names, seed=st.integers())
@settings(max_examples=100, deadline=None)
def test_the_order_of_a_persons_words_changes_nothing(words: list[str], seed: int) -> None:
    listed = analyse(" ".join([*words[:-1], "Orlov"]), PERSON)
    shuffled = random.Random(seed).sample(words, len(words))

    ours, theirs = (score(analyse(" ".join(order), PERSON), listed) for order in (words, shuffled))
    assert ours.score == theirs.score
    assert ours.parts() == theirs.parts()


@given(words=names, kind=st.sampled_from(EntityKind), taken=st.integers(0, 4), extra=st.booleans())
@settings(max_examples=100, deadline=None)
def test_a_score_never_rises_when_a_matching_word_is_taken_away(
    words: list[str], kind: EntityKind, taken: int, *, extra: bool
) -> None:
    listed = analyse(" ".join(words), kind)
    asked = [*words, "orlov"] if extra else words
    without = [word for word in asked if word != words[taken % len(words)]]

    whole = score(analyse(" ".join(asked), kind), listed).score
    assert score(analyse(" ".join(without), kind), listed).score <= whole


@given(first=st.text(max_size=60), second=st.text(max_size=60), kind=st.sampled_from(EntityKind))
@settings(max_examples=150, deadline=None)
def test_any_two_texts_have_a_score_and_a_text_is_its_own_spelling(
    first: str, second: str, kind: EntityKind
) -> None:
    one, other = analyse(first, kind), analyse(second, kind)

    assert 0 <= score(one, other).score <= 1
    assert score(one, one).score == (1 if one.words else 0)


@pytest.mark.parametrize("kind", EntityKind)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_answered_on_a_list_of_hostile_names(name: str, kind: EntityKind) -> None:
    index = NameIndex(
        NameEntry(entity_id=str(at), kind=kind, names=(text,)) for at, text in enumerate(HOSTILE)
    )

    found = find_matches(ScreeningTarget(kind=kind, name=name), index, "mine", Thresholds())

    assert {one.match.name for one in found} >= ({name} if analyse(name, kind).words else set())


def test_one_entity_of_ten_thousand_names_is_found_by_each_and_hides_no_other() -> None:
    names = tuple(f"Bel{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}or {n} Quandil" for n in range(10_000))
    many = NameEntry(entity_id="many", kind=EntityKind.PERSON, names=names)
    other = NameEntry(entity_id="other", kind=EntityKind.PERSON, names=("Zoltan Karaveli",))
    index = NameIndex([many, other])

    for name, entity_id in ((names[0], "many"), (names[-1], "many"), ("Zoltan Karaveli", "other")):
        target = ScreeningTarget(kind=EntityKind.PERSON, name=name)
        found = find_matches(target, index, "mine", Thresholds())
        assert [one.match.entity_id for one in found][:1] == [entity_id]


@given(text=st.text(max_size=200))
@settings(max_examples=150, deadline=None)
def test_normal_words_are_their_own_normal_form(text: str) -> None:
    once = to_ascii_words(text)

    assert to_ascii_words(" ".join(once)) == once
    assert set("".join(once)) <= set(string.ascii_lowercase + string.digits)


def test_a_list_without_entries_finds_nobody() -> None:
    assert (
        find_matches(ScreeningTarget(kind=PERSON, name="Ibrahim"), NameIndex([]), "empty", Thresholds()) == []
    )
