"""Matches on a list: what a name, facts beside it and an identifier amount to (G117)."""

import pytest

from schemas.lists import EntityKind, Gender, Identifier, NameEntry
from schemas.screenings import CheckResultKind, EvidenceEffect, EvidenceFeature, ScreeningTarget
from streams.names.index import NameIndex
from streams.names.matching import Found, Thresholds, amount_to, find_matches

SUPPORTS, CONTRADICTS = EvidenceEffect.SUPPORTS, EvidenceEffect.CONTRADICTS
BIRTH_DATE, COUNTRY = EvidenceFeature.BIRTH_DATE, EvidenceFeature.COUNTRY

LISTED = NameEntry(
    entity_id="e1",
    kind=EntityKind.PERSON,
    names=("Ibrahim al-Tikriti", "Ibrahim Tikriti Qadoori"),
    weak_names=("Zorro Maskman",),
    birth_dates=("1970-03-12", "1968"),
    countries=("IQ",),
    gender=Gender.MALE,
    identifiers=(Identifier(type="passport", value="A 123-456"),),
    addresses=("12 Palm Street, Baghdad",),
    programs=("IRAQ2",),
)


def ask(**fields: object) -> list[Found]:
    """Find `LISTED` by its name and these facts."""
    target = ScreeningTarget.model_validate({"kind": "PERSON", "name": "Ibrahim Tikriti"} | fields)
    return find_matches(target, NameIndex([LISTED]), "mine", Thresholds())


@pytest.mark.parametrize(
    ("facts", "result"),
    [
        ({}, CheckResultKind.POSSIBLE),
        ({"birth_date": "1970-03-12"}, CheckResultKind.MATCH),
        ({"birth_date": "1970-12-03"}, CheckResultKind.MATCH),
        ({"birth_date": "1970"}, CheckResultKind.MATCH),
        ({"birth_date": "1968-07-01"}, CheckResultKind.MATCH),
        ({"birth_date": "1970-05-12"}, CheckResultKind.POSSIBLE),
        ({"birth_date": "1985"}, CheckResultKind.POSSIBLE),
        ({"country": "IQ"}, CheckResultKind.MATCH),
        ({"country": "FR"}, CheckResultKind.POSSIBLE),
        ({"country": "IQ", "birth_date": "1985"}, CheckResultKind.POSSIBLE),
        ({"country": "IQ", "gender": "F"}, CheckResultKind.POSSIBLE),
        ({"gender": "M"}, CheckResultKind.POSSIBLE),
        ({"address": "Palm Street 12, Baghdad"}, CheckResultKind.MATCH),
        ({"name": "Zorro Maskman", "birth_date": "1970-03-12"}, CheckResultKind.POSSIBLE),
        ({"identifiers": [{"type": "id", "value": "a123456"}]}, CheckResultKind.MATCH),
        (
            {"identifiers": [{"type": "id", "value": "a123456"}], "birth_date": "1985"},
            CheckResultKind.POSSIBLE,
        ),
        ({"identifiers": [{"type": "id", "value": "a999999"}]}, CheckResultKind.POSSIBLE),
    ],
)
def test_g117_a_person_matches_only_with_one_more_fact(
    facts: dict[str, object], result: CheckResultKind
) -> None:
    assert amount_to(ask(**facts)) is result


def test_g117_an_equal_identifier_is_found_whatever_the_name() -> None:
    (found,) = ask(name="Somebody Else", identifiers=[{"type": "passport", "value": "A123456"}])

    assert (found.result, found.match.score, found.match.name) == (
        CheckResultKind.MATCH,
        1.0,
        "Ibrahim al-Tikriti",
    )


def test_g117_corroboration_can_be_turned_off() -> None:
    target = ScreeningTarget(kind=EntityKind.PERSON, name="Ibrahim al-Tikriti")

    found = find_matches(target, NameIndex([LISTED]), "mine", Thresholds(corroborate=False))

    assert amount_to(found) is CheckResultKind.MATCH


def test_g117_evidence_says_what_was_compared() -> None:
    (found,) = ask(birth_date="1985-01-01", country="IQ")

    listed = [(fact.feature, fact.effect, fact.query, fact.listed) for fact in found.match.evidence[1:]]
    assert listed == [
        (BIRTH_DATE, CONTRADICTS, "1985-01-01", "1970-03-12"),
        (COUNTRY, SUPPORTS, "IQ", "IQ"),
    ]
    assert found.match.programs == ("IRAQ2",)


def test_g117_evidence_orders_what_the_names_leave_equal() -> None:
    born = [("a", "1950"), ("b", "1970"), ("c", "1990")]
    index = NameIndex(
        NameEntry(
            entity_id=entity_id, kind=EntityKind.PERSON, names=("Ibrahim Tikriti",), birth_dates=(year,)
        )
        for entity_id, year in born
    )
    target = ScreeningTarget(kind=EntityKind.PERSON, name="Ibrahim Tikriti", birth_date="1970-01-01")

    found = find_matches(target, index, "mine", Thresholds())

    assert [one.match.entity_id for one in found] == ["b", "a", "c"]


def test_g117_a_suppressed_match_no_longer_counts() -> None:
    (found,) = ask(birth_date="1970-03-12")

    assert amount_to([found.suppressed("dsp_1")]) is CheckResultKind.CLEAR


def test_persons_and_organisations_of_one_name_are_kept_apart() -> None:
    assert ask(kind="ORGANISATION") == []


def test_an_organisation_matches_by_its_name_alone() -> None:
    index = NameIndex(
        [NameEntry(entity_id="o", kind=EntityKind.ORGANISATION, names=("Zelmar Shipping Ltd",))]
    )
    target = ScreeningTarget(kind=EntityKind.ORGANISATION, name="ZELMAR SHIPPING LIMITED")

    assert amount_to(find_matches(target, index, "mine", Thresholds())) is CheckResultKind.MATCH
