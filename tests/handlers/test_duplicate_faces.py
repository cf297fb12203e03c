"""`duplicate_faces: review`: a face that another approved subject has goes to a person, and says why."""

from dataclasses import replace
from datetime import timedelta
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
import structlog

from app.adapters.faces.search import InMemoryFaceSearch
from schemas.enums import CheckKind, FlowType, Recommendation
from schemas.enums import VerificationStatus as Status
from schemas.ids import SessionId, SubjectId, derive_id
from schemas.problems import StoreUnavailable
from schemas.reasons import ReasonCode
from schemas.tenant_settings import (
    USUAL_CHECKS,
    DuplicateFaces,
    PolicyChoice,
    Retention,
    TenantSettings,
)
from schemas.verifications import PersonalFields, StoredVerification
from streams.ports.records import Change, Record, RecordKind
from streams.tenants.settings import SETTINGS
from streams.verification.explanation import Reading, explain
from streams.verification.policy import SAME_AMONG_MANY, FaceBands, VerificationPolicy
from streams.vision_ports import Face
from tests.builders import ACME, GLOBEX, NOW
from tests.handlers.test_verification_reuse import codes, specimen, submitted
from tests.handlers.verification_stage import FACE_BOX, Breaking, Scene, Stage, Trouble, check_of

OTHER, THIRD = SubjectId("customer-other"), SubjectId("customer-third")
DUPLICATE = (ReasonCode.DUPLICATE_SUBJECT,)
SESSION: dict[str, Any] = {"session_id": SessionId(derive_id("vs", "one")), "required_checks": USUAL_CHECKS}


async def stage_with(
    scene: Scene | None = None, *, duplicate_faces: DuplicateFaces = DuplicateFaces.REVIEW, days: int = 30
) -> Stage:
    """A stage of a tenant that made its choice."""
    stage = Stage(scene)
    await choose(stage, duplicate_faces, days=days)
    return stage


async def choose(stage: Stage, duplicate_faces: DuplicateFaces, *, days: int = 30, version: int = 1) -> None:
    """Keep the tenants' choice."""
    choice = PolicyChoice(revision=version + 1, duplicate_faces=duplicate_faces)
    body = TenantSettings(verification_policy=choice, retention=Retention(biometric_days=days)).to_bytes()
    for tenant in (ACME, GLOBEX):
        record = Record(tenant, RecordKind.SETTINGS, SETTINGS, body, NOW, version=version)
        await stage.stores.journal.commit(Change(tenant, (record,)))


def at(distance: float) -> tuple[float, ...]:
    """A face that lies so far from the scene's usual one."""
    return (distance, *(0.0,) * 127)


async def test_the_face_of_another_approved_subject_goes_to_a_person() -> None:
    stage = await stage_with()
    first = await submitted(stage)

    second = await submitted(stage, "second", subject_id=OTHER)

    assert (codes(first), first.verification.status) == ((), Status.APPROVED)
    assert (codes(second), second.verification.status) == (DUPLICATE, Status.REVIEW_REQUIRED)
    assert second.recommendation is Recommendation.REJECTED
    said = check_of(second, CheckKind.FACE_MATCH).detail
    which = first.verification.verification_id
    assert said.endswith(
        f"Among 1 faces of other approved subjects that of {which} lies at 0.31, within 0.42."
    )


async def test_it_is_off_unless_the_tenant_chose_it_and_nothing_is_kept() -> None:
    stage = Stage()

    stored = [await submitted(stage), await submitted(stage, "second", subject_id=OTHER)]

    assert [codes(one) for one in stored] == [(), ()]
    assert [one.sealed_face for one in stored] == [None, None]
    assert "approved subjects" not in check_of(stored[1], CheckKind.FACE_MATCH).detail


@pytest.mark.parametrize("session", [{}, SESSION], ids=["submitted by the tenant", "of a session"])
async def test_the_explanation_shows_that_the_check_ran_and_its_threshold(session: dict[str, Any]) -> None:
    stage = await stage_with()

    stored = await submitted(stage, **session)

    explained = explain(stored, Reading(PersonalFields()), None, personal=True).model_dump(mode="json")
    (faces,) = [one for one in explained["checks"] if one["kind"] == CheckKind.FACE_MATCH]
    assert faces["detail"].endswith("Among 0 faces of other approved subjects none lies within 0.42.")
    assert explained["thresholds"]["face_bands"]["scene-faces"]["duplicate_at"] == pytest.approx(0.42)
    assert not [name for name in explained if "sealed" in name]


@pytest.mark.parametrize(
    ("distance", "found"), [(0.419, DUPLICATE), (0.421, ()), (0.5, ())], ids=["within", "beyond", "a pair's"]
)
async def test_one_among_many_must_be_nearer_than_a_pair(distance: float, found: Any) -> None:
    stage = await stage_with()
    await submitted(stage)
    stage.scene.face = at(distance)

    assert codes(await submitted(stage, "second", subject_id=OTHER)) == found


async def test_the_policys_own_threshold_counts() -> None:
    bands = FaceBands(accept_at=0.5, reject_above=0.6, duplicate_at=0.2)
    stage = Stage(policy=VerificationPolicy(face_bands={"scene-faces": bands}))
    await choose(stage, DuplicateFaces.REVIEW)
    await submitted(stage)

    assert codes(await submitted(stage, "second", subject_id=OTHER)) == ()


def test_a_threshold_above_that_of_a_pair_does_not_load() -> None:
    with pytest.raises(ValueError, match="duplicate_at must not exceed accept_at"):
        FaceBands(accept_at=0.5, reject_above=0.6, duplicate_at=0.51)


def test_the_share_is_what_the_measured_pairs_say_of_a_hundred_thousand_faces() -> None:
    """Different people lie at 0.84 on average and the nearest of 700 pairs at 0.615."""
    pairs = NormalDist(0.84, 0.08)

    assert 700 * pairs.cdf(0.615) > 1
    assert 100_000 * pairs.cdf(0.50) > 1
    assert 100_000 * pairs.cdf(SAME_AMONG_MANY * 0.50) < 0.01


async def test_ones_own_earlier_faces_are_no_duplicate() -> None:
    stage = await stage_with()
    await submitted(stage)

    assert codes(await submitted(stage, "second")) == ()


@pytest.mark.parametrize("changes", [{"livemode": False}, {"tenant_id": GLOBEX}])
async def test_the_other_mode_and_another_tenant_are_another_world(changes: dict[str, Any]) -> None:
    stage = await stage_with()
    await submitted(stage)

    second = await submitted(stage, "second", subject_id=OTHER, **changes)
    third = await submitted(stage, "third", subject_id=THIRD, **changes)

    assert (codes(second), codes(third)) == ((), DUPLICATE)


async def test_a_verification_that_is_not_approved_is_compared_with_nobody() -> None:
    stage = await stage_with()
    await submitted(stage)

    waiting = await submitted(stage, "second", subject_id=OTHER)
    third = await submitted(stage, "third", subject_id=THIRD)

    assert waiting.sealed_face is not None
    assert "Among 1 faces" in check_of(third, CheckKind.FACE_MATCH).detail


async def test_a_person_who_agreed_to_a_notice_without_a_search_is_not_searched() -> None:
    stage = await stage_with()
    await submitted(stage)

    second = await submitted(stage, "second", subject_id=OTHER, face_search_agreed=False, **SESSION)

    assert (codes(second), second.sealed_face) == ((), None)
    said = check_of(second, CheckKind.FACE_MATCH).detail
    assert said.endswith("The person agreed to a notice without a search among other faces.")


async def test_a_specimen_in_test_mode_is_neither_compared_nor_kept() -> None:
    stage = await stage_with(Scene(findings=specimen()))

    stored = [
        await submitted(stage, name, subject_id=subject, livemode=False)
        for name, subject in (("first", OTHER), ("second", THIRD))
    ]

    assert [(codes(one), one.sealed_face) for one in stored] == [((), None)] * 2


@pytest.mark.parametrize(
    ("subject", "found"), [("sim:approved", ()), ("sim:review:DUPLICATE_SUBJECT", DUPLICATE)]
)
async def test_the_sandbox_finds_what_its_subject_asks_for_and_compares_nobody(
    subject: str, found: Any
) -> None:
    stage = await stage_with()
    await submitted(stage, livemode=False)

    stored = await submitted(stage, "second", subject_id=SubjectId(subject), livemode=False)

    assert (codes(stored), stored.sealed_face) == (found, None)
    assert not any("approved subjects" in one.detail for one in stored.checks)


async def test_a_document_without_a_selfie_is_compared_by_its_portrait() -> None:
    stage = await stage_with()
    await submitted(stage)
    document: dict[str, Any] = {"flow_type": FlowType.DOCUMENT, "required_checks": USUAL_CHECKS[:3]}

    stored = await submitted(stage, "second", subject_id=OTHER, **document)

    assert codes(stored) == DUPLICATE
    assert "lies at 0.31" in check_of(stored, CheckKind.AUTHENTICITY).detail


async def test_without_a_face_nobody_is_compared_and_the_explanation_says_so() -> None:
    stage = await stage_with(Scene(document_faces=()))
    document: dict[str, Any] = {"flow_type": FlowType.DOCUMENT, "required_checks": USUAL_CHECKS[:3]}

    stored = await submitted(stage, **document)

    said = check_of(stored, CheckKind.AUTHENTICITY).detail
    assert said.endswith("No face was measured to look for among other subjects'.")
    assert (ReasonCode.DUPLICATE_SUBJECT in codes(stored), stored.sealed_face) == (False, None)


async def test_nobody_is_approved_where_faces_cannot_be_searched() -> None:
    stage = await stage_with()
    stage.faces = None  # type: ignore[assignment]  # a worker that was given no search

    stored = await submitted(stage)

    assert stored.verification.status is Status.FAILED
    assert codes(stored) == (ReasonCode.PROVIDER_UNAVAILABLE,)


async def test_a_face_that_is_no_number_approves_nobody() -> None:
    stage = await stage_with(Scene(face=(float("nan"), *(0.0,) * 127)))

    assert (await submitted(stage)).verification.status is Status.FAILED


async def test_a_broken_engine_keeps_no_face() -> None:
    stage = await stage_with(Scene(trouble={"embed": Trouble.BROKEN}))

    assert (await submitted(stage)).sealed_face is None


async def test_a_verification_that_decided_nothing_keeps_no_face() -> None:
    stage = await stage_with(Scene(trouble={"read": Trouble.BROKEN}))

    stored = await submitted(stage)

    assert (stored.verification.status, stored.sealed_face) == (Status.FAILED, None)


async def test_nothing_is_decided_while_the_store_cannot_say_who_was_erased() -> None:
    stage = await stage_with()
    await submitted(stage)
    away: Any = Breaking(stage.stores.vault, "erased", StoreUnavailable("store"))
    stage.faces = InMemoryFaceSearch(replace(stage.stores, vault=away))
    command = await stage.keep(subject_id=OTHER, verification_id=derive_id("ver", "second"))

    with pytest.raises(StoreUnavailable):
        await stage.handler(command)
    decided = await stage.handler(command)

    assert codes(await stage.stored(decided.verification_id)) == DUPLICATE


@pytest.mark.parametrize("worker", ["the same worker", "another worker", "a worker that restarted"])
async def test_an_erased_subject_is_no_ones_duplicate_in_any_worker(worker: str) -> None:
    stage = await stage_with()
    first = await submitted(stage)
    elsewhere = InMemoryFaceSearch(stage.stores)
    mine, stage.faces = stage.faces, elsewhere
    assert codes(await submitted(stage, "second", subject_id=OTHER)) == DUPLICATE

    await stage.stores.vault.destroy(ACME, first.verification.subject_id)
    restarted = InMemoryFaceSearch(stage.stores)
    searches = {"the same worker": mine, "another worker": elsewhere, "a worker that restarted": restarted}
    stage.faces = searches[worker]
    third = await submitted(stage, "third", subject_id=THIRD)

    assert codes(third) == ()
    assert "Among 0 faces" in check_of(third, CheckKind.FACE_MATCH).detail


async def test_a_face_past_the_tenants_retention_is_not_compared() -> None:
    stage = await stage_with(days=7)
    await submitted(stage)
    stage.now += timedelta(days=8)

    assert codes(await submitted(stage, "second", subject_id=OTHER)) == ()


async def test_switched_off_it_compares_nothing_and_forgets_what_was_in_memory() -> None:
    stage = await stage_with()
    await submitted(stage)
    assert codes(await submitted(stage, "second", subject_id=OTHER)) == DUPLICATE
    await choose(stage, DuplicateFaces.OFF, version=2)

    third = await submitted(stage, "third", subject_id=THIRD)

    assert (codes(third), third.sealed_face) == ((), None)
    assert isinstance(stage.faces, InMemoryFaceSearch)
    assert stage.faces.faces == 0


async def test_of_faces_one_after_the_other_each_later_one_is_noticed_in_any_worker() -> None:
    stage = await stage_with()
    await submitted(stage)
    found: list[StoredVerification] = []
    for name in ("second", "third"):
        stage.faces = InMemoryFaceSearch(stage.stores)
        found.append(await submitted(stage, name, subject_id=SubjectId(f"customer-{name}")))

    assert [codes(one) for one in found] == [DUPLICATE] * 2


async def test_the_face_is_in_no_event_no_row_and_no_log_and_sealed_where_it_is_kept() -> None:
    numbers = np.linspace(0.1, 0.9, 128).astype(np.float32)
    stage = await stage_with(Scene(face=tuple(map(float, numbers)), selfie_faces=(Face(FACE_BOX, 1.2, ()),)))
    with structlog.testing.capture_logs() as logs:
        first = await submitted(stage)
        second = await submitted(stage, "second", subject_id=OTHER)

    assert codes(second) == DUPLICATE
    published = [event.to_bytes() for event in stage.announcer.events]
    rows = [row.to_bytes() for row in stage.shelves.audit[ACME].values()]
    stored = [record.body for record in stage.shelves.records.values()]
    sealed = (first.sealed_face or "").encode()
    assert sealed
    assert not [one for one in (*published, *rows, repr(logs).encode()) if sealed in one]
    assert not [one for one in (*published, *rows, *stored) if numbers.tobytes() in one or b"0.1," in one]
    assert StoredVerification.from_bytes(first.to_bytes()) == first
