"""Present a review case to a reviewer: fields by source, distance on its scale, points, history; pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

from schemas.enums import EvidenceKind, RetentionPolicy
from schemas.explanations import ExplainedCheck, ExplainedField, ExplainedQuad, FieldState
from schemas.reasons import ReasonCode
from schemas.reviews import CaseReason, Conclusion, ReviewCase
from schemas.verifications import Evidence, Risk, Verification
from streams.reviews.rules import LEASE
from streams.verification.explanation import LAST4

SOON: Final = timedelta(hours=2)
"""A case that is due within so long is marked."""

IMAGES: Final = (EvidenceKind.IMAGE, EvidenceKind.PORTRAIT, EvidenceKind.SELFIE)
MOST_POINTS: Final = 100
"""The end of the scale of risk points; a sum may be higher."""

_ISO_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_ACRONYMS: Final = re.compile(r"\b(Mrz|Qr|Nin|Pep|mrz|qr|nin|pep)\b")


@dataclass(frozen=True, slots=True)
class Due:
    """How far away the time is at which a case is due."""

    late: bool
    soon: bool
    text: str
    """Hours and minutes, or days and hours, either way."""


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field of the document with the values of its sources."""

    key: str
    state: FieldState
    values: tuple[tuple[str, str], ...]
    """What was read: source and value; one without a source where both sources say the same."""
    declared: str | None
    quads: tuple[ExplainedQuad, ...]


@dataclass(frozen=True, slots=True)
class Image:
    """An image of the evidence."""

    evidence_id: str
    kind: EvidenceKind
    address: str
    deleted: bool
    seen: bool
    """The reviewer looked at it before."""


@dataclass(frozen=True, slots=True)
class FaceScale:
    """The distance of two faces between its thresholds, as shares of the drawn scale."""

    distance: float
    accept_at: float
    reject_above: float

    def share(self, value: float) -> float:
        """Return where a distance stands on the scale, 0 to 1; the uncertain band is in its middle."""
        return round(min(1.0, value / (self.accept_at + self.reject_above)), 4)

    @property
    def side(self) -> str:
        """Tell which band the distance is in."""
        if self.distance <= self.accept_at:
            return "same"
        return "other" if self.distance > self.reject_above else "unsure"


@dataclass(frozen=True, slots=True)
class Term:
    """A reason with its points."""

    code: str
    title: str
    detail: str
    points: int | None
    fields: tuple[str, ...] = ()
    """The fields it is about."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a case's history."""

    at: datetime
    what: str
    author: str = ""
    text: str = ""
    outcome: str = ""


def due_of(due_at: datetime, now: datetime) -> Due:
    """Return how far away a due time is."""
    left = due_at - now
    minutes = int(abs(left).total_seconds() // 60)
    hours, days = minutes // 60, minutes // (60 * 24)
    text = f"{minutes} min"
    if days:
        text = f"{days} d {hours % 24} h"
    elif hours:
        text = f"{hours} h {minutes % 60:02}"
    return Due(late=left < timedelta(), soon=timedelta() <= left < SOON, text=text)


def title_of(code: str) -> str:
    """Return a code as words."""
    words = code.replace("_", " ").capitalize()
    return _ACRONYMS.sub(lambda found: found[0].upper(), words)


def shown(value: Any) -> str | None:
    """Return a field's value as text; a date in words, None for what is no plain value."""
    if value is None or isinstance(value, dict | list):
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    if _ISO_DATE.fullmatch(text) is None:
        return text
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return text
    return f"{day.day} {day:%b %Y}"


def rows_of(fields: Sequence[ExplainedField]) -> tuple[FieldRow, ...]:
    """Return the fields as rows; parts that are no plain value have none."""
    plain = (one for one in fields if not any(map(_is_compound, (one.zone, one.page, one.declared))))
    return tuple(map(_row, plain))


def _is_compound(value: Any) -> bool:
    return isinstance(value, dict | list)


def _row(field: ExplainedField) -> FieldRow:
    zone, page, declared = (_part(field.key, shown(one)) for one in (field.zone, field.page, field.declared))
    read = (("zone", zone), ("page", page))
    values = tuple((source, value) for source, value in read if value is not None)
    if zone is not None and zone == page:
        values = (("", zone),)
    return FieldRow(field.key, field.state, values, declared, field.quads or ())


def _part(key: str, value: str | None) -> str | None:
    return f"…{value}" if key == LAST4 and value is not None else value


def digits_hold(fields: Sequence[ExplainedField]) -> bool | None:
    """Return whether every check digit of the zone holds; None when it has none."""
    for field in fields:
        if field.key == "mrz_checks" and isinstance(field.zone, Mapping):
            return all(value is True for value in field.zone.values())
    return None


def images_of(verification: Verification, seen: frozenset[str]) -> tuple[Image, ...]:
    """Return the images of a verification: document, portrait, selfie."""
    document = verification.document.evidence if verification.document else ()
    every = {one.id: one for one in (*document, *verification.evidence) if one.kind in IMAGES}
    images = (image_of(verification, one, seen=one.id in seen) for one in every.values())
    return tuple(sorted(images, key=lambda image: IMAGES.index(image.kind)))


def image_of(verification: Verification, evidence: Evidence, *, seen: bool) -> Image:
    """Return a piece of a verification's evidence as an image."""
    address = f"/v1/verifications/{verification.verification_id}/evidence/{evidence.id}"
    deleted = evidence.retention_policy is RetentionPolicy.REDACTED
    return Image(evidence.id, evidence.kind, address, deleted=deleted, seen=seen)


def scale_of(verification: Verification, thresholds: Mapping[str, Any]) -> FaceScale | None:
    """Return the distance of the faces on the scale of the engine that measured it."""
    if verification.distance is None:
        return None
    bands = thresholds.get("face_bands")
    if not isinstance(bands, Mapping) or not bands:
        return None
    engine = (verification.model_version or "").partition("@")[0]
    band = bands.get(engine) or next(iter(bands.values()))
    return FaceScale(verification.distance, float(band["accept_at"]), float(band["reject_above"]))


def terms_of(
    reasons: Sequence[CaseReason],
    risk: Risk | None,
    checks: Sequence[ExplainedCheck] = (),
    rows: Sequence[FieldRow] = (),
) -> tuple[Term, ...]:
    """Return reasons with their points, and the differing fields that some are about."""
    points = {str(term.code): term.points for term in risk.terms} if risk else {}
    found = {str(code): check.detail for check in checks for code in check.reasons if check.detail}
    codes = dict.fromkeys(points, "") | {str(reason.code): reason.message for reason in reasons}
    return tuple(
        Term(code, title_of(code), message or found.get(code, ""), points.get(code), _fields(code, rows))
        for code, message in codes.items()
    )


def _fields(code: str, rows: Sequence[FieldRow]) -> tuple[str, ...]:
    differing = [row for row in rows if row.state is FieldState.DIFFERS]
    match code:
        case ReasonCode.MRZ_VISUAL_MISMATCH:
            return tuple(row.key for row in differing if len(row.values) > 1)
        case ReasonCode.DECLARED_FIELD_MISMATCH:
            return tuple(row.key for row in differing if row.declared is not None)
    return ()


def history_of(case: ReviewCase, names: Mapping[str, str]) -> tuple[Entry, ...]:
    """Return what happened to a case, oldest first."""
    return tuple(sorted(_entries(case, names), key=lambda entry: entry.at))


def _entries(case: ReviewCase, names: Mapping[str, str]) -> Iterator[Entry]:
    yield Entry(case.created_at, "opened")
    for note in case.notes:
        yield Entry(note.created_at, "noted", names.get(note.author_id, ""), note.text)
    for what, made in (("first", case.first_conclusion), ("concluded", case.conclusion)):
        if made is not None:
            yield _conclusion(what, made, names)
    if case.assignee is not None and case.lease_expires_at is not None:
        yield Entry(case.lease_expires_at - LEASE, "claimed", names.get(case.assignee, ""))


def _conclusion(what: str, made: Conclusion, names: Mapping[str, str]) -> Entry:
    return Entry(made.concluded_at, what, names.get(made.reviewer_id, ""), made.note, made.outcome)
