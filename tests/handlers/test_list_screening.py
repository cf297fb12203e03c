"""Screening against loaded lists: which are asked, what is missing, what a swap changes (G116, G132)."""

from datetime import UTC, date, datetime, timedelta

import pytest

from app.lists.serving import sandbox_entries
from schemas.enums import CheckKind
from schemas.ids import TenantId
from schemas.lists import SANDBOX, EntityKind, NameEntry
from schemas.screenings import CheckAnswer, CheckResultKind, ErrorCause, ScreeningTarget
from streams.lists.listed_names import LocalNames
from streams.lists.loaded import LoadedList, LoadedLists
from streams.lists.screening import ListScreening
from streams.ports.screening import ScreeningOptions, Suppression

ACME, GLOBEX = TenantId("ten_acme"), TenantId("ten_globex")
NOW = datetime(2026, 3, 9, tzinfo=UTC)

ZAFAR = NameEntry(entity_id="1", kind=EntityKind.PERSON, names=("Zafar Qadoori",), birth_dates=("1970",))
ASKED = ScreeningTarget(kind=EntityKind.PERSON, name="Zafar Qadoori", birth_date="1970-05-05")


def loaded(
    name: str,
    *entries: NameEntry,
    owner: TenantId | None = None,
    check: CheckKind = CheckKind.SANCTIONS,
    days: int = 0,
) -> LoadedList:
    """Build a list loaded so many days ago."""
    moment = NOW - timedelta(days=days)
    version = f"2026-03-09#{name[:8]}"
    return LoadedList(name, owner, check, version, date(2026, 3, 9), moment, LocalNames(entries))


async def ask(
    lists: LoadedLists,
    options: ScreeningOptions | None = None,
    target: ScreeningTarget = ASKED,
    *,
    check: CheckKind = CheckKind.SANCTIONS,
    tenant_id: TenantId = ACME,
    livemode: bool = True,
) -> CheckAnswer:
    """Screen a target."""
    screen = ListScreening(lists, lambda: NOW)
    return await screen(check, target, options or ScreeningOptions(), tenant_id=tenant_id, livemode=livemode)


async def test_a_listed_person_is_a_match_with_the_version_of_the_list() -> None:
    answer = await ask(LoadedLists([loaded("un", ZAFAR)]))

    assert (answer.result, answer.score) == (CheckResultKind.MATCH, 1.0)
    assert answer.list_versions == {"un": "2026-03-09#un"}
    assert answer.matches[0].entity_id == "1"


async def test_nobody_is_clear_without_a_list() -> None:
    answer = await ask(LoadedLists())

    assert (answer.result, answer.causes) == (CheckResultKind.ERROR, (ErrorCause.LIST_MISSING,))


async def test_a_list_of_another_check_is_not_asked() -> None:
    answer = await ask(LoadedLists([loaded("peps", ZAFAR, check=CheckKind.PEP)]))

    assert (answer.result, answer.list_versions) == (CheckResultKind.ERROR, {})


async def test_a_named_list_that_is_not_loaded_is_an_error_and_a_match_elsewhere_counts() -> None:
    lists = LoadedLists([loaded("un", ZAFAR)])
    both = ScreeningOptions(lists=("un", "eu"))

    found = await ask(lists, both)
    nobody = await ask(lists, both, ScreeningTarget(kind=EntityKind.PERSON, name="Somebody Else"))

    assert (found.result, found.causes) == (CheckResultKind.MATCH, (ErrorCause.LIST_MISSING,))
    assert (nobody.result, nobody.causes) == (CheckResultKind.ERROR, (ErrorCause.LIST_MISSING,))


async def test_a_list_older_than_the_policy_allows_is_an_error() -> None:
    lists = LoadedLists([loaded("un", days=3)])

    stale = await ask(lists, ScreeningOptions(max_list_age=timedelta(days=2)))
    fresh = await ask(lists, ScreeningOptions(max_list_age=timedelta(days=4)))

    assert (stale.result, stale.causes) == (CheckResultKind.ERROR, (ErrorCause.LIST_STALE,))
    assert fresh.result is CheckResultKind.CLEAR


async def test_another_tenants_list_is_never_asked_even_by_name() -> None:
    lists = LoadedLists([loaded("mine", ZAFAR, owner=GLOBEX), loaded("un")])

    unasked = await ask(lists)
    named = await ask(lists, ScreeningOptions(lists=("mine",)))

    assert (unasked.result, set(unasked.list_versions)) == (CheckResultKind.CLEAR, {"un"})
    assert (named.result, named.list_versions) == (CheckResultKind.ERROR, {})
    assert (await ask(lists, tenant_id=GLOBEX)).result is CheckResultKind.MATCH


async def test_g132_test_keys_see_the_sandbox_and_their_own_lists_only() -> None:
    lists = LoadedLists(
        [loaded("un", ZAFAR), loaded(SANDBOX, *sandbox_entries()), loaded("mine", owner=ACME)]
    )

    unasked = await ask(lists, livemode=False)
    named = await ask(lists, ScreeningOptions(lists=("un",)), livemode=False)

    assert (unasked.result, set(unasked.list_versions)) == (CheckResultKind.CLEAR, {"mine", SANDBOX})
    assert named.result is CheckResultKind.MATCH


async def test_g132_live_keys_never_see_the_sandbox() -> None:
    lists = LoadedLists([loaded(SANDBOX, *sandbox_entries()), loaded("un")])
    listed = ScreeningTarget(kind=EntityKind.PERSON, name="Zoltan Qaraveli", country="SC")

    assert (await ask(lists, target=listed)).result is CheckResultKind.CLEAR
    assert (await ask(lists, ScreeningOptions(lists=(SANDBOX,)), listed)).result is CheckResultKind.ERROR


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("Zoltan Qaraveli", CheckKind.SANCTIONS),
        ("Honorata Quillfeather", CheckKind.PEP),
        ("Casimir Wexelblatt", CheckKind.ADVERSE_MEDIA),
    ],
)
async def test_g132_an_entry_of_the_sandbox_belongs_to_its_own_check(name: str, check: CheckKind) -> None:
    lists = LoadedLists([loaded(SANDBOX, *sandbox_entries())])
    target = ScreeningTarget(kind=EntityKind.PERSON, name=name)

    found = {
        kind: (await ask(lists, target=target, check=kind, livemode=False)).result
        for kind in (CheckKind.SANCTIONS, CheckKind.PEP, CheckKind.ADVERSE_MEDIA)
    }

    assert found == dict.fromkeys(found, CheckResultKind.CLEAR) | {check: CheckResultKind.POSSIBLE}


async def test_g120_a_disposition_holds_until_the_entry_changes() -> None:
    lists = LoadedLists([loaded("un", ZAFAR)])
    judged = ScreeningOptions(suppressed={("un", "1"): Suppression("dsp_1", ZAFAR.digest())})

    before = await ask(lists, judged)
    lists.replace(loaded("un", ZAFAR.model_copy(update={"countries": ("IR",)})))
    after = await ask(lists, judged)

    assert (before.result, before.matches[0].suppressed_by) == (CheckResultKind.CLEAR, "dsp_1")
    assert (after.result, after.matches[0].suppressed_by) == (CheckResultKind.MATCH, None)


async def test_a_target_without_name_and_identifier_is_not_evaluated() -> None:
    answer = await ask(LoadedLists([loaded("un", ZAFAR)]), target=ScreeningTarget(kind=EntityKind.PERSON))

    assert answer.result is CheckResultKind.NOT_EVALUATED
