"""How sessions move, and what is said of captured images at once."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from schemas.enums import CheckKind, CheckVerdict, EvidenceKind, FlowType, SessionStatus
from schemas.flows import FlowConfiguration, FlowRevision
from schemas.ids import EvidenceId, FlowId, SessionId, UserId, derive_id
from schemas.people import SentActor
from schemas.problems import Refused
from schemas.reasons import ReasonCode
from schemas.sessions import (
    AddCapture,
    Captured,
    Consent,
    OpenSession,
    StartSession,
    StoredSession,
    SubmitSession,
    Submitted,
    row_of,
    with_row,
)
from schemas.verifications import CheckResult
from streams.flows.rules import REQUIRED_CHECKS
from streams.sessions import rules
from streams.sessions.image_rules import said_at_once, said_of_scenario
from streams.verification.policy import ImageThresholds
from streams.verification.sandbox import parse_scenario
from streams.verification.session_attempts import to_take_again
from tests.builders import ACME, KEY, NOW, SUBJECT, build_command, build_sharpness, build_stored

SESSION = SessionId(derive_id("vs", "rules"))
COMMON: dict[str, Any] = {
    "tenant_id": ACME,
    "session_id": SESSION,
    "actor": SentActor(actor_type="SUBJECT", actor_id=SESSION, request_id="req-1"),
    "requested_at": NOW,
}
IMAGE = Captured(evidence_id=EvidenceId(derive_id("evd", "one")), kept_at=NOW)
LATER = NOW + timedelta(minutes=1)


def build_session(
    status: SessionStatus = SessionStatus.STARTED,
    flow_type: FlowType = FlowType.FULL_IDENTITY,
    attempts: int = 0,
    **changes: Any,
) -> StoredSession:
    """A session with consent and both pictures."""
    frozen = FlowConfiguration(flow_type=flow_type, required_checks=REQUIRED_CHECKS[flow_type], documents=())
    revision = FlowRevision(revision=1, configuration=frozen, published_at=NOW, published_by=UserId("usr_1"))
    command = OpenSession(
        **COMMON, subject_id=SUBJECT, flow_id=FlowId("vf_1"), livemode=True, key_id=KEY, sealed_opening="",
        fingerprint="",
    )  # fmt: skip
    opened = rules.moved(
        rules.opened(command, revision, None, None, NOW), NOW, status=status, attempts=attempts
    )
    values: dict[str, Any] = {
        "consent": Consent(accepted=True, notice_version="1", decided_at=NOW),
        "document": IMAGE,
        "selfie": IMAGE,
        "submitted": Submitted(request_id="r", sealed_submission="", submitted_at=NOW),
    }
    return opened.model_copy(update=values | changes)


MOVES: dict[str, tuple[Callable[[StoredSession], StoredSession], set[SessionStatus]]] = {
    "consent": (
        lambda one: rules.decided_on_notice(
            one, StartSession(**COMMON, accepted=True, notice_version="1"), LATER
        ),
        {SessionStatus.CREATED, SessionStatus.STARTED},
    ),
    "an image": (
        lambda one: rules.captured(
            one,
            AddCapture(**COMMON, attempt=1, what=EvidenceKind.SELFIE, evidence_id=IMAGE.evidence_id),
            LATER,
        ),
        {SessionStatus.CREATED, SessionStatus.STARTED},
    ),
    "handing in": (
        lambda one: rules.submitted(one, SubmitSession(**COMMON, attempt=1, sealed_submission=""), LATER),
        {SessionStatus.CREATED, SessionStatus.STARTED, SessionStatus.SUBMITTED, SessionStatus.PROCESSING},
    ),
    "cancelling": (
        lambda one: rules.cancelled(one, LATER),
        {SessionStatus.CREATED, SessionStatus.STARTED, SessionStatus.CANCELLED},
    ),
}


@pytest.mark.parametrize("status", SessionStatus)
@pytest.mark.parametrize("move", MOVES)
def test_a_move_is_taken_where_it_may_be(move: str, status: SessionStatus) -> None:
    take, may_be = MOVES[move]

    if status in may_be:
        assert take(build_session(status)).session.session_id == SESSION
    else:
        with pytest.raises(Refused) as refused:
            take(build_session(status))
        assert refused.value.refusal.code == "SESSION_FINISHED"


@pytest.mark.parametrize("status", SessionStatus)
def test_time_ends_only_what_was_not_handed_in(status: SessionStatus) -> None:
    ended = rules.expired(build_session(status), NOW + rules.LIFETIME)

    over = status in {SessionStatus.CREATED, SessionStatus.STARTED}
    assert ended.session.status is (SessionStatus.EXPIRED if over else status)


def test_a_session_lasts_a_day_to_the_millisecond() -> None:
    last = NOW + rules.LIFETIME - timedelta(milliseconds=1)

    assert rules.expired(build_session(), last) == build_session()


@pytest.mark.parametrize(
    ("flow_type", "missing", "complete"),
    [
        (FlowType.FULL_IDENTITY, "document", False),
        (FlowType.FULL_IDENTITY, "selfie", False),
        (FlowType.DOCUMENT, "document", False),
        (FlowType.DOCUMENT, "selfie", True),
        (FlowType.BIOMETRIC, "document", True),
        (FlowType.BIOMETRIC, "selfie", False),
    ],
)
def test_each_journey_needs_its_own_pictures(flow_type: FlowType, missing: str, *, complete: bool) -> None:
    taken_away: dict[str, Any] = {missing: None}
    session = build_session(flow_type=flow_type, **taken_away)

    if complete:
        rules.require_submitting(session)
    else:
        with pytest.raises(Refused, match=f"no {missing}"):
            rules.require_submitting(session)


def test_three_attempts_and_no_more() -> None:
    assert [rules.attempts_left(build_session(attempts=n)) for n in range(4)] == [3, 2, 1, 0]
    with pytest.raises(Refused):
        rules.require_submitting(build_session(attempts=3))


def test_an_image_of_an_earlier_attempt_comes_too_late() -> None:
    command = AddCapture(**COMMON, attempt=1, what=EvidenceKind.SELFIE, evidence_id=IMAGE.evidence_id)

    with pytest.raises(Refused):
        rules.captured(build_session(attempts=1), command, LATER)


def test_an_attempt_leads_to_one_verification_who_asks() -> None:
    session = build_session(SessionStatus.SUBMITTED, attempts=2)

    one, other = (rules.command_of(ACME, session) for _ in range(2))

    assert one == other
    assert one.verification_id == rules.verification_id(ACME, SESSION, 2)
    assert (one.may_retry, one.required_checks) == (True, session.configuration.required_checks)
    assert not rules.command_of(ACME, build_session(SessionStatus.SUBMITTED, attempts=3)).may_retry


def test_a_row_is_read_from_either_form_of_a_session() -> None:
    hosted = build_session()
    direct = hosted.session
    ended = direct.model_copy(update={"status": SessionStatus.REJECTED})

    for raw in (hosted.to_bytes(), direct.to_bytes()):
        assert row_of(raw) == direct
        assert row_of(with_row(raw, ended)) == ended


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        ({}, ()),
        ({"blur": 5.0}, (ReasonCode.IMAGE_BLURRED,)),
        ({"blur": 1.0, "brightness": 5.0}, (ReasonCode.IMAGE_BLURRED, ReasonCode.IMAGE_TOO_DARK)),
        ({"glare": 0.9}, ()),
    ],
)
@pytest.mark.parametrize("what", [EvidenceKind.IMAGE, EvidenceKind.SELFIE])
def test_pixels_tell_blur_and_darkness_at_once(
    what: EvidenceKind, measured: dict[str, float], said: tuple[ReasonCode, ...]
) -> None:
    assert said_at_once(what, build_sharpness(**measured), 400, ImageThresholds()) == said


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        ("sim:approved", ()),
        ("sim:review:FACE_MATCH_UNCERTAIN", ()),
        ("sim:review:IMAGE_GLARE", (ReasonCode.IMAGE_GLARE,)),
    ],
)
def test_a_sandbox_subject_hears_its_own_reason(subject: str, said: tuple[ReasonCode, ...]) -> None:
    scenario = parse_scenario(subject)
    assert scenario is not None

    assert said_of_scenario(scenario) == said


@pytest.mark.parametrize(
    ("verdict", "reasons", "again"),
    [
        (CheckVerdict.UNCLEAR, ("EXTRACTION_INCOMPLETE", "IMAGE_BLURRED"), ("IMAGE_BLURRED",)),
        (CheckVerdict.WARNED, ("IMAGE_BLURRED",), ()),
        (CheckVerdict.UNCLEAR, ("FACE_MATCH_UNCERTAIN",), ()),
        (CheckVerdict.FAILED, ("IMAGE_BLURRED", "DOCUMENT_EXPIRED"), ()),
        (CheckVerdict.NOT_EVALUATED, ("MODEL_UNAVAILABLE",), ()),
    ],
)
def test_only_an_unclear_image_is_asked_for_again(
    verdict: CheckVerdict, reasons: tuple[str, ...], again: tuple[str, ...]
) -> None:
    codes = tuple(ReasonCode(code) for code in reasons)
    results = [CheckResult(kind=CheckKind.DOCUMENT_EXTRACTION, verdict=verdict, reasons=codes)]

    assert to_take_again(build_command(may_retry=True), results) == again
    assert to_take_again(build_command(), results) == ()


def test_a_session_ends_as_its_verification() -> None:
    ended = rules.concluded(build_session(SessionStatus.PROCESSING), build_stored(), LATER).session

    assert (ended.status, ended.decision, ended.completed_at) == (SessionStatus.APPROVED, "ALLOW", LATER)
