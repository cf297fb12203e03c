"""R2: pictures used before: as the document, as a copy of its portrait, for another subject."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from schemas.enums import CheckKind, ExtractionStatus, FlowType, Recommendation
from schemas.enums import VerificationStatus as Status
from schemas.ids import EvidenceId, SessionId, SubjectId, VerificationId, derive_id
from schemas.problems import Refused, StoreUnavailable
from schemas.reasons import ReasonCode
from schemas.verifications import StoredVerification, codes_of
from streams.ports.records import RecordKind
from streams.verification.observations import DocumentFindings
from streams.verification.policy import FaceBands, VerificationPolicy
from streams.vision_ports import Face
from tests.builders import ACME, GLOBEX, build_fields, build_findings
from tests.handlers.verification_stage import DOCUMENT, SELFIE, Breaking, Scene, Stage, Trouble, check_of

OTHER = SubjectId("customer-other")


def specimen() -> DocumentFindings:
    """A passport of the fictional issuer."""
    return build_findings(fields=build_fields() | {"issuing_state": "UTO"})


async def submitted(stage: Stage, name: str = "first", **changes: Any) -> StoredVerification:
    """Submit a request of its own and return what is kept of it."""
    decided = await stage.submit(**named(name) | changes)
    tenant_id = changes.get("tenant_id", ACME)
    record = await stage.stores.records.get(tenant_id, RecordKind.VERIFICATION, decided.verification_id)
    return StoredVerification.from_bytes(record.body)


def named(name: str) -> dict[str, Any]:
    """The ids of a request."""
    return {
        "verification_id": VerificationId(derive_id("ver", name)),
        "document_evidence_id": EvidenceId(derive_id("evd", name, "document")),
        "selfie_evidence_id": EvidenceId(derive_id("evd", name, "selfie")),
        "fingerprint": derive_id("fp", name),
    }


def codes(stored: StoredVerification) -> tuple[ReasonCode, ...]:
    """The reasons of a verification."""
    return codes_of(stored.verification.reasons)


async def test_the_document_as_its_own_selfie_is_not_approved() -> None:
    stage = Stage(Scene(digests=True, distance=0.0))

    stored = await submitted(stage, selfie=DOCUMENT)

    assert codes(stored) == (ReasonCode.SELFIE_REUSED,)
    assert stored.verification.status is Status.REVIEW_REQUIRED
    assert stored.recommendation is Recommendation.REJECTED


async def test_a_copy_of_the_portrait_is_not_approved() -> None:
    stored = await submitted(Stage(Scene(parallax=0.3)))

    assert codes(stored) == (ReasonCode.SELFIE_REUSED,)
    assert "Parallax 0.30 px" in check_of(stored, CheckKind.FACE_MATCH).detail


async def test_the_policys_threshold_of_the_engine_counts() -> None:
    bands = FaceBands(accept_at=0.5, reject_above=0.6, copy_at=1.5)
    stage = Stage(Scene(parallax=1.4), VerificationPolicy(face_bands={"scene-faces": bands}))

    assert codes(await submitted(stage)) == (ReasonCode.SELFIE_REUSED,)


async def test_faces_of_different_people_are_not_compared_as_photographs() -> None:
    stage = Stage(Scene(distance=0.9, parallax=0.0))

    assert ReasonCode.SELFIE_REUSED not in codes(await submitted(stage))
    assert "parallax" not in stage.scene.calls


@pytest.mark.parametrize("trouble", [Trouble.BROKEN, Trouble.HANGING])
async def test_nobody_is_approved_when_the_measure_breaks(trouble: Trouble) -> None:
    policy = VerificationPolicy(engine_deadline_s=0.05)
    stage = Stage(Scene(trouble={"parallax": trouble}), policy)

    assert (await submitted(stage)).verification.status is Status.FAILED


async def test_a_selfie_with_rows_of_print_is_read_and_a_document_on_it_noticed() -> None:
    stage = Stage(Scene(print_rows=12))

    stored = await submitted(stage)

    assert stage.scene.calls.count("read") == 2
    assert codes(stored) == (ReasonCode.SELFIE_REUSED,)
    assert "The selfie shows a document." in check_of(stored, CheckKind.FACE_MATCH).detail


async def test_an_honest_selfie_is_not_read() -> None:
    stage = Stage(Scene())

    await submitted(stage)

    assert stage.scene.calls.count("read") == 1


async def test_a_small_face_on_a_wall_with_a_word_is_no_document() -> None:
    small = Face((40.0, 30.0, 90.0, 80.0), 1.2, ())
    word = DocumentFindings(ExtractionStatus.UNSUPPORTED, reader=None)
    stage = Stage(Scene(selfie_faces=(small,), findings=word))

    assert ReasonCode.SELFIE_REUSED not in codes(await submitted(stage))
    assert stage.scene.calls.count("read") == 2


@pytest.mark.parametrize("facts", [{"parallax": 0.0}, {"print_rows": 20}])
async def test_a_specimen_in_test_mode_is_exempt_and_says_so(facts: dict[str, Any]) -> None:
    stage = Stage(Scene(digests=True, findings=specimen(), **facts))

    stored = await submitted(stage, livemode=False)

    assert stored.verification.status is Status.APPROVED
    assert "a specimen of UTO in test mode" in check_of(stored, CheckKind.FACE_MATCH).detail


async def test_a_test_with_another_document_is_not_exempt() -> None:
    stored = await submitted(Stage(Scene(parallax=0.0)), livemode=False)

    assert codes(stored) == (ReasonCode.SELFIE_REUSED,)


async def test_the_portrait_compared_with_again_is_noticed_without_a_document() -> None:
    stage = Stage(Scene(parallax=0.0))
    checks = (CheckKind.LIVENESS, CheckKind.FACE_MATCH)

    stored = await submitted(stage, flow_type=FlowType.BIOMETRIC, required_checks=checks)

    assert codes(stored) == (ReasonCode.SELFIE_REUSED,)


@pytest.mark.parametrize("may_retry", [True, False])
async def test_an_attempt_of_a_session_is_judged_alike_and_not_taken_again(*, may_retry: bool) -> None:
    stage = Stage(Scene(parallax=0.1))
    session: dict[str, Any] = {
        "session_id": SessionId(derive_id("vs", "one")),
        "required_checks": (CheckKind.LIVENESS, CheckKind.FACE_MATCH, CheckKind.AUTHENTICITY),
        "may_retry": may_retry,
    }

    stored = await submitted(stage, **session)

    assert codes(stored) == (ReasonCode.SELFIE_REUSED,)
    assert stored.verification.status is Status.REVIEW_REQUIRED


@pytest.mark.parametrize(
    ("document", "selfie", "said"),
    [
        pytest.param(DOCUMENT, b"another selfie", "document", id="document"),
        pytest.param(DOCUMENT + b" of another", SELFIE, "selfie", id="selfie"),
        pytest.param(DOCUMENT, SELFIE, "document, selfie", id="both"),
    ],
)
async def test_a_picture_kept_for_another_subject_goes_to_a_person(
    document: bytes, selfie: bytes, said: str
) -> None:
    stage = Stage(Scene(digests=True))
    first = await submitted(stage)

    second = await submitted(stage, "second", subject_id=OTHER, document=document, selfie=selfie)

    assert first.verification.status is Status.APPROVED
    assert codes(second) == (ReasonCode.DUPLICATE_SUBJECT,)
    assert second.verification.status is Status.REVIEW_REQUIRED
    assert second.recommendation is Recommendation.REJECTED
    assert check_of(second, CheckKind.FACE_MATCH).detail.endswith(f"another subject: {said}.")


async def test_the_same_subject_again_is_no_duplicate() -> None:
    stage = Stage(Scene(digests=True))
    await submitted(stage)

    assert codes(await submitted(stage, "second")) == ()


@pytest.mark.parametrize("changes", [{"livemode": False}, {"tenant_id": GLOBEX}])
async def test_the_other_mode_and_another_tenant_are_another_world(changes: dict[str, Any]) -> None:
    stage = Stage(Scene(digests=True))
    await submitted(stage)

    assert codes(await submitted(stage, "second", subject_id=OTHER, **changes)) == ()


async def test_of_two_subjects_at_once_one_is_noticed() -> None:
    stage = Stage(Scene(digests=True))

    both = await asyncio.gather(submitted(stage), submitted(stage, "second", subject_id=OTHER))

    assert sorted(map(codes, both)) == [(), (ReasonCode.DUPLICATE_SUBJECT,)]


async def test_a_command_that_died_after_its_claim_is_no_duplicate_of_itself() -> None:
    stage = Stage(Scene(digests=True))
    command = await stage.keep(**named("first"))
    journal = stage.stores.journal
    failing: Any = Breaking(journal, "commit", StoreUnavailable("store"), after=True)
    stage.stores = replace(stage.stores, journal=failing)
    with pytest.raises(StoreUnavailable):
        await stage.handler(command)

    await stage.handler(command)

    record = await stage.stores.records.get(ACME, RecordKind.VERIFICATION, command.verification_id)
    assert codes(StoredVerification.from_bytes(record.body)) == ()


async def test_a_picture_that_is_kept_no_more_is_free() -> None:
    stage = Stage(Scene(digests=True))
    first = await submitted(stage)
    await stage.stores.evidence.discard(ACME, [one.id for one in first.verification.evidence])

    second = await submitted(stage, "second", subject_id=OTHER)
    third = await submitted(stage, "third", subject_id=SubjectId("customer-third"))

    assert codes(second) == ()
    assert codes(third) == (ReasonCode.DUPLICATE_SUBJECT,)


async def test_a_picture_of_an_erased_subject_is_free() -> None:
    stage = Stage(Scene(digests=True))
    first = await submitted(stage)
    await stage.stores.vault.destroy(ACME, first.verification.subject_id)

    assert codes(await submitted(stage, "second", subject_id=OTHER)) == ()


async def test_specimens_in_test_mode_may_be_everybodys() -> None:
    stage = Stage(Scene(digests=True, findings=specimen()))
    await submitted(stage, livemode=False)

    assert codes(await submitted(stage, "second", subject_id=OTHER, livemode=False)) == ()


async def test_sandbox_subjects_neither_claim_pictures_nor_meet_them() -> None:
    stage = Stage(Scene(digests=True))
    await submitted(stage, subject_id=SubjectId("sim:approved@1"), livemode=False)

    assert codes(await submitted(stage, "second", subject_id=OTHER, livemode=False)) == ()
    assert len([key for key in stage.shelves.records if key[1] is RecordKind.PICTURE]) == 2


async def test_a_refused_command_claims_nothing() -> None:
    stage = Stage(Scene(digests=True, selfie_faces=()))
    with pytest.raises(Refused):
        await submitted(stage)
    stage.scene.selfie_faces = Scene().selfie_faces

    assert codes(await submitted(stage, "second", subject_id=OTHER)) == ()


async def test_a_document_alone_is_known_by_its_document() -> None:
    stage = Stage(Scene(digests=True))
    alone: dict[str, Any] = {
        "flow_type": FlowType.DOCUMENT,
        "required_checks": (CheckKind.DOCUMENT_EXTRACTION, CheckKind.AUTHENTICITY),
    }
    await submitted(stage, **alone)

    assert codes(await submitted(stage, "second", subject_id=OTHER, **alone)) == (
        ReasonCode.DUPLICATE_SUBJECT,
    )
