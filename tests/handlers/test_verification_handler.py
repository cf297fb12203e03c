import asyncio
import json
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from typing_extensions import override

from schemas.enums import (
    CheckKind,
    CheckVerdict,
    DecisionOutcome,
    DocumentType,
    EvidenceKind,
    ExtractionStatus,
    VerificationStatus,
)
from schemas.events import EventType
from schemas.ids import SessionId, SubjectId, derive_id
from schemas.problems import ProblemCode, Refused
from schemas.reasons import ReasonCode
from schemas.verifications import AcceptedDocument, PersonalFields
from streams.ports.records import RecordKind
from streams.verification import records
from streams.verification.checks import DOCUMENT_POINTER, SELFIE_POINTER
from streams.verification.policy import FaceBands, VerificationPolicy
from streams.vision_ports import Face
from tests.builders import (
    ACME,
    SUBJECT,
    TODAY,
    VERIFICATION,
    build_declared,
    build_fields,
    build_findings,
    build_submission,
    expiring,
)
from tests.handlers.verification_stage import FACE_BOX, TINY, UNDECODABLE, Scene, Stage, check_of

LIVE_CHECKS = (*VerificationPolicy().required_checks, CheckKind.LIVENESS)
UNREADABLE = build_findings(
    status=ExtractionStatus.FAILED, legible=False, reader=None, fields={}, number=None
)
UNKNOWN = build_findings(status=ExtractionStatus.UNSUPPORTED, reader=None, fields={}, number=None)


async def outcome_of(
    scene: Scene, **changes: Any
) -> tuple[VerificationStatus, DecisionOutcome, tuple[ReasonCode, ...]]:
    stage = Stage(scene)
    await stage.submit(**changes)
    verification = (await stage.stored()).verification
    return verification.status, verification.decision, tuple(r.code for r in verification.reasons)


async def refusal_of(stage: Stage, **changes: Any) -> tuple[ProblemCode, list[str | None]]:
    with pytest.raises(Refused) as refused:
        await stage.submit(**changes)
    refusal = refused.value.refusal
    return refusal.code, [problem.pointer for problem in refusal.errors]


async def test_a_good_document_and_its_holder_are_approved() -> None:
    assert await outcome_of(Scene()) == (VerificationStatus.APPROVED, DecisionOutcome.ALLOW, ())


async def test_the_answer_names_the_verification() -> None:
    decided = await Stage().submit()

    assert (decided.verification_id, decided.replayed) == (VERIFICATION, False)


async def test_an_expiring_document_is_approved_with_a_warning() -> None:
    scene = Scene(findings=expiring(TODAY + timedelta(days=10)))

    assert await outcome_of(scene) == (
        VerificationStatus.APPROVED,
        DecisionOutcome.WARN,
        (ReasonCode.DOCUMENT_EXPIRING,),
    )


async def test_an_expired_document_is_rejected() -> None:
    scene = Scene(findings=expiring(TODAY - timedelta(days=1)))

    assert await outcome_of(scene) == (
        VerificationStatus.REJECTED,
        DecisionOutcome.BLOCK,
        (ReasonCode.DOCUMENT_EXPIRED,),
    )


async def test_another_person_is_rejected() -> None:
    assert await outcome_of(Scene(distance=0.9)) == (
        VerificationStatus.REJECTED,
        DecisionOutcome.BLOCK,
        (ReasonCode.FACE_MISMATCH,),
    )


async def test_an_uncertain_face_is_shown_to_a_person() -> None:
    assert await outcome_of(Scene(distance=0.55)) == (
        VerificationStatus.REVIEW_REQUIRED,
        DecisionOutcome.REVIEW_REQUIRED,
        (ReasonCode.FACE_MATCH_UNCERTAIN,),
    )


async def test_a_document_without_a_reader_is_shown_to_a_person() -> None:
    stage = Stage(Scene(findings=UNKNOWN))

    await stage.submit()

    verification = (await stage.stored()).verification
    assert verification.status is VerificationStatus.REVIEW_REQUIRED
    assert verification.document is not None
    assert verification.document.extraction_status is ExtractionStatus.UNSUPPORTED


async def test_a_document_without_a_portrait_is_shown_to_a_person() -> None:
    status, _, reasons = await outcome_of(Scene(document_faces=()))

    assert status is VerificationStatus.REVIEW_REQUIRED
    assert reasons == (ReasonCode.FACE_NOT_FOUND_DOCUMENT,)


async def test_a_portrait_without_text_is_shown_to_a_person() -> None:
    status, _, reasons = await outcome_of(Scene(findings=UNREADABLE))

    assert status is VerificationStatus.REVIEW_REQUIRED
    assert reasons == (ReasonCode.DOCUMENT_NOT_FOUND,)


async def test_a_declared_number_that_differs_is_shown_to_a_person() -> None:
    submission = build_submission(declared=build_declared(number_last4="0000"))

    status, _, reasons = await outcome_of(Scene(), submission=submission)

    assert (status, reasons) == (VerificationStatus.REVIEW_REQUIRED, (ReasonCode.NUMBER_MISMATCH,))


async def test_two_people_on_the_selfie_are_shown_to_a_person() -> None:
    second = Face((0.0, 0.0, 75.0, 75.0), 0.9, ())
    scene = Scene(selfie_faces=(Face(FACE_BOX, 1.2, ()), second))

    status, _, reasons = await outcome_of(scene)

    assert (status, reasons) == (VerificationStatus.REVIEW_REQUIRED, (ReasonCode.MULTIPLE_FACES,))


async def test_a_small_face_in_the_background_does_not_matter() -> None:
    scene = Scene(selfie_faces=(Face(FACE_BOX, 1.2, ()), Face((0.0, 0.0, 30.0, 30.0), 0.9, ())))

    assert (await outcome_of(scene))[0] is VerificationStatus.APPROVED


async def test_declared_values_are_never_copied_into_the_result() -> None:
    stage = Stage(Scene(findings=UNKNOWN))
    declared = build_declared(
        issuing_country="SE",
        number_last4="4711",
        expires_at="2031-01-01",
        extracted_fields={"surname": "Svensson"},
    )

    await stage.submit(submission=build_submission(declared=declared))

    stored = await stage.stored()
    opened = await stage.stores.vault.open(
        ACME, SUBJECT, records.fields_label(VERIFICATION), stored.sealed_fields or ""
    )
    assert PersonalFields.from_bytes(opened) == PersonalFields()


async def test_what_was_read_opens_under_its_label() -> None:
    stage = Stage()

    await stage.submit()

    stored = await stage.stored()
    opened = await stage.stores.vault.open(
        ACME, SUBJECT, records.fields_label(VERIFICATION), stored.sealed_fields or ""
    )
    whole = records.with_personal(stored, PersonalFields.from_bytes(opened))
    assert whole.document is not None
    assert (whole.document.number_last4, whole.document.issuing_country) == ("02C3", "NG")
    assert whole.document.extracted_fields["surname"] == "ERIKSSON"


async def test_the_result_carries_the_distance_and_what_it_was_measured_with() -> None:
    stage = Stage(policy=VerificationPolicy(revision=4))

    await stage.submit()

    verification = (await stage.stored()).verification
    assert (verification.distance, verification.model_version) == (0.31, "scene-faces@12345678+thr.4")


async def test_the_policy_may_name_its_own_thresholds_for_an_engine() -> None:
    bands = {"scene-faces": FaceBands(accept_at=0.1, reject_above=0.2)}
    stage = Stage(policy=VerificationPolicy(face_bands=bands))

    await stage.submit()

    assert (await stage.stored()).verification.status is VerificationStatus.REJECTED


async def test_the_images_the_portrait_and_the_reading_are_kept() -> None:
    stage = Stage()

    await stage.submit()

    verification = (await stage.stored()).verification
    assert {evidence.id for evidence in verification.evidence} == stage.evidence_ids()
    assert {evidence.kind for evidence in verification.evidence} == {
        EvidenceKind.IMAGE,
        EvidenceKind.EXTRACTION,
        EvidenceKind.PORTRAIT,
        EvidenceKind.SELFIE,
    }


async def test_the_kept_reading_holds_the_full_number() -> None:
    stage = Stage()

    await stage.submit()

    verification = (await stage.stored()).verification
    (reading,) = [one for one in verification.evidence if one.kind is EvidenceKind.EXTRACTION]
    content = json.loads(await stage.stores.evidence.get(ACME, reading.id))
    assert content["number"] == "L898902C3"


async def test_a_face_found_on_its_side_is_cut_out_upright() -> None:
    turned = Face((10.0, 10.0, 110.0, 110.0), 1.1, (), turn=90)
    stage = Stage(Scene(document_faces=(turned,)))

    await stage.submit()

    verification = (await stage.stored()).verification
    (portrait,) = [one for one in verification.evidence if one.kind is EvidenceKind.PORTRAIT]
    content = await stage.stores.evidence.get(ACME, portrait.id)
    assert content == b"portrait (0.0, 0.0, 145.0, 145.0)"


async def test_a_direct_verification_gets_a_row_among_the_sessions() -> None:
    stage = Stage()

    await stage.submit()

    stored = await stage.stored()
    session = await stage.stores.records.get(ACME, RecordKind.SESSION, stored.session_id)
    assert records.by_mode(livemode=True) in session.indexes


async def test_a_review_opens_a_case() -> None:
    stage = Stage(Scene(distance=0.55))

    await stage.submit()

    case = await stage.case()
    assert (case.verification_id, case.subject_id) == (VERIFICATION, SUBJECT)


async def test_the_verification_is_listed_at_once() -> None:
    stage = Stage()

    await stage.submit()

    (row,) = await stage.stores.records.page(
        ACME,
        RecordKind.VERIFICATION,
        records.by_subject_and_status(True, SUBJECT, "APPROVED"),
        limit=10,
    )
    assert row.id == VERIFICATION


async def test_the_log_is_shown_what_was_committed() -> None:
    stage = Stage(Scene(distance=0.55))

    await stage.submit()

    assert [event.type for event in stage.announcer.events] == [
        EventType.VERIFICATION_COMPLETED,
        EventType.VERIFICATION_REVIEW_REQUIRED,
        EventType.CASE_OPENED,
    ]
    assert set(stage.announcer.audit_ids) == set(stage.shelves.audit[ACME])


@pytest.mark.parametrize(
    ("images", "code", "pointers"),
    [
        ({"document": UNDECODABLE}, ProblemCode.IMAGE_UNDECODABLE, [DOCUMENT_POINTER]),
        ({"selfie": UNDECODABLE}, ProblemCode.IMAGE_UNDECODABLE, [SELFIE_POINTER]),
        (
            {"document": UNDECODABLE, "selfie": UNDECODABLE},
            ProblemCode.IMAGE_UNDECODABLE,
            [DOCUMENT_POINTER, SELFIE_POINTER],
        ),
        ({"document": TINY}, ProblemCode.IMAGE_NOT_EVALUABLE, [DOCUMENT_POINTER]),
        ({"selfie": TINY}, ProblemCode.IMAGE_NOT_EVALUABLE, [SELFIE_POINTER]),
        ({"document": TINY, "selfie": UNDECODABLE}, ProblemCode.IMAGE_UNDECODABLE, [SELFIE_POINTER]),
    ],
)
async def test_an_image_that_cannot_be_evaluated_is_refused_where_it_stands(
    images: dict[str, bytes], code: ProblemCode, pointers: list[str]
) -> None:
    assert await refusal_of(Stage(), **images) == (code, pointers)


async def test_a_selfie_without_a_face_is_refused_before_the_document_is_read() -> None:
    stage = Stage(Scene(selfie_faces=()))

    assert await refusal_of(stage) == (ProblemCode.IMAGE_NOT_EVALUABLE, [SELFIE_POINTER])
    assert "read" not in stage.scene.calls


@dataclass
class ConcurrentScene(Scene):
    """Lets the page be read no earlier than faces are searched for on it, and these no earlier than that."""

    both: asyncio.Barrier = field(default_factory=lambda: asyncio.Barrier(2))

    @override
    async def play(self, call: str) -> None:
        if call in ("read", "find on document"):
            await self.both.wait()
        await super().play(call)


async def test_the_page_is_read_while_faces_are_searched_for_on_it() -> None:
    assert (await outcome_of(ConcurrentScene()))[0] is VerificationStatus.APPROVED


async def test_an_image_with_neither_text_nor_a_face_is_no_usable_document() -> None:
    stage = Stage(Scene(findings=UNREADABLE, document_faces=()))

    assert await refusal_of(stage) == (ProblemCode.DOCUMENT_UNUSABLE, [DOCUMENT_POINTER])


@pytest.mark.parametrize(
    "changes",
    [{"selfie": UNDECODABLE}, {"document": TINY}, {"subject_id": SubjectId("sim:approved")}],
)
async def test_a_refusal_leaves_nothing_behind(changes: dict[str, Any]) -> None:
    stage = Stage()

    await refusal_of(stage, **changes)

    assert stage.evidence_ids() == set()
    assert stage.shelves.records == {}
    assert stage.announcer.events == []


async def test_liveness_without_an_engine_is_shown_to_a_person() -> None:
    stage = Stage(policy=VerificationPolicy(required_checks=LIVE_CHECKS), with_liveness=False)

    await stage.submit()

    stored = await stage.stored()
    assert check_of(stored, CheckKind.LIVENESS).verdict is CheckVerdict.NOT_EVALUATED
    assert stored.verification.status is VerificationStatus.REVIEW_REQUIRED
    assert [r.code for r in stored.verification.reasons] == [ReasonCode.MODEL_UNAVAILABLE]


@pytest.mark.parametrize(
    ("score", "status"),
    [
        (0.9, VerificationStatus.APPROVED),
        (0.5, VerificationStatus.REVIEW_REQUIRED),
        (0.1, VerificationStatus.REJECTED),
    ],
)
async def test_the_liveness_score_decides_when_it_is_required(
    score: float, status: VerificationStatus
) -> None:
    stage = Stage(Scene(liveness=score), VerificationPolicy(required_checks=LIVE_CHECKS))

    await stage.submit()

    assert (await stage.stored()).verification.status is status


async def test_liveness_is_not_asked_when_it_is_not_required() -> None:
    stage = Stage(Scene(liveness=0.0))

    await stage.submit()

    assert "liveness" not in stage.scene.calls


async def test_evidence_of_an_erased_subject_is_not_evaluated() -> None:
    stage = Stage()
    command = await stage.keep()
    await stage.stores.vault.destroy(ACME, SUBJECT)

    with pytest.raises(Refused) as refused:
        await stage.handler(command)

    (error,) = refused.value.refusal.errors
    assert (error.code, error.pointer) == (ProblemCode.VALIDATION_FAILED, "/subject_id")
    assert stage.shelves.records == {}


async def test_damaged_evidence_is_not_evaluated() -> None:
    stage = Stage()
    command = await stage.keep()
    owner = (ACME, command.selfie_evidence_id)
    row, sealed = stage.shelves.evidence[owner]
    stage.shelves.evidence[owner] = (row, sealed[:-1] + bytes([sealed[-1] ^ 1]))

    with pytest.raises(Refused) as refused:
        await stage.handler(command)

    assert refused.value.refusal.code is ProblemCode.STORE_FAILED


async def test_a_submission_that_is_none_is_refused() -> None:
    stage = Stage()
    command = await stage.keep()
    label = records.submission_label(command.verification_id)
    sealed = await stage.stores.vault.seal(ACME, SUBJECT, label, b'{"surname": "CANARY"}')

    with pytest.raises(Refused) as refused:
        await stage.handler(command.model_copy(update={"sealed_submission": sealed}))

    assert refused.value.refusal.code is ProblemCode.STORE_FAILED
    assert "CANARY" not in str(refused.value)


async def test_another_tenants_evidence_is_not_evaluated() -> None:
    stage = Stage()
    command = await stage.keep()
    stored = stage.shelves.evidence.pop((ACME, command.document_evidence_id))
    stage.shelves.evidence["globex", command.document_evidence_id] = stored  # type: ignore[index]  # any tenant

    with pytest.raises(Refused) as refused:
        await stage.handler(command)

    assert refused.value.refusal.code is ProblemCode.STORE_FAILED


async def test_an_unreadable_image_costs_one_verification_and_no_more() -> None:
    stage = Stage(Scene(findings=replace(build_findings(), status=ExtractionStatus.PARTIAL)))

    await stage.submit()

    stored = await stage.stored()
    assert stored.verification.status is VerificationStatus.REVIEW_REQUIRED
    assert ReasonCode.EXTRACTION_INCOMPLETE in {reason.code for reason in stored.verification.reasons}


@pytest.mark.parametrize(
    ("livemode", "digits_hold", "status"),
    [
        (True, True, VerificationStatus.REJECTED),
        (True, False, VerificationStatus.REVIEW_REQUIRED),
        (False, True, VerificationStatus.APPROVED),
    ],
)
@pytest.mark.parametrize("checks", [(), (CheckKind.FACE_MATCH,)], ids=["every check", "faces alone"])
async def test_r1_a_specimen_is_accepted_in_test_mode_only(
    *, livemode: bool, digits_hold: bool, status: VerificationStatus, checks: tuple[CheckKind, ...]
) -> None:
    specimen = build_findings(
        fields=build_fields(issuing_state="UTO"), check_digits={"composite": digits_hold}
    )
    stage = Stage(Scene(findings=specimen))

    await stage.submit(livemode=livemode, required_checks=checks)

    verification = (await stage.stored()).verification
    refused = ReasonCode.COUNTRY_NOT_ACCEPTED in {reason.code for reason in verification.reasons}
    assert (verification.status, refused) == (status, livemode)


@pytest.mark.parametrize(
    ("issuer", "status"),
    [("UTO", VerificationStatus.APPROVED), ("GB", VerificationStatus.REJECTED)],
)
async def test_r1_in_test_mode_a_specimen_stands_for_any_country_of_the_flow(
    issuer: str, status: VerificationStatus
) -> None:
    stage = Stage(Scene(findings=build_findings(fields=build_fields(issuing_state=issuer))))
    nigerian = AcceptedDocument(document_type=DocumentType.PASSPORT, country="NG")

    await stage.submit(livemode=False, accepted_documents=(nigerian,))

    assert (await stage.stored()).verification.status is status


@pytest.mark.parametrize(
    ("session", "pointers"),
    [
        (None, ["/document/number_last4", "/document/extracted_fields/surname"]),
        (SessionId(derive_id("vs", "one")), [None, None]),
    ],
    ids=["sent by the tenant", "typed by a person"],
)
async def test_r7_a_verification_says_its_mode_its_checks_and_which_declared_fields_differ(
    session: SessionId | None, pointers: list[str | None]
) -> None:
    stage = Stage()
    declared = build_declared(number_last4="4711", extracted_fields={"surname": "Svensson"})

    await stage.submit(submission=build_submission(declared=declared), session_id=session)

    verification = (await stage.stored()).verification
    assert [reason.pointer for reason in verification.reasons] == pointers
    assert verification.livemode
    assert {one.kind.value: one.verdict.value for one in verification.checks} == {
        "AUTHENTICITY": "PASSED",
        "DOCUMENT_EXTRACTION": "PASSED",
        "DOCUMENT_CONSISTENCY": "UNCLEAR",
        "FACE_MATCH": "PASSED",
    }


async def test_g16_the_thresholds_of_the_engines_that_were_asked_are_kept() -> None:
    bands = {"scene-faces": FaceBands(accept_at=0.1, reject_above=0.2, copy_at=0.3)}
    stages = (
        Stage(),
        Stage(policy=VerificationPolicy(face_bands=bands, required_checks=LIVE_CHECKS)),
    )
    for stage in stages:
        await stage.submit()

    usual, chosen = [(await stage.stored()).thresholds for stage in stages]
    assert usual["face_bands"] == {"scene-faces": {"accept_at": 0.5, "reject_above": 0.6, "copy_at": 0.45}}
    assert chosen["face_bands"] == {"scene-faces": {"accept_at": 0.1, "reject_above": 0.2, "copy_at": 0.3}}
    assert usual["liveness_bands"] == {}
    assert chosen["liveness_bands"] == {"scene-liveness": {"pass_at": 0.8, "fail_below": 0.4}}
