"""Observations of the engines as plain values, the input of the pure rules, and how much was read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from schemas.enums import ExtractionStatus, ReaderClass, TextEnum
from schemas.screenings import CheckAnswer
from schemas.verifications import CheckResult, PersonalFields
from streams.vision_ports import Embedding, Quad, Sharpness

ENOUGH: Final = 0.5
"""Confidence below which a field does not count as read."""


class Agreement(TextEnum):
    """How a second place on the document agrees with a field."""

    MATCH = "MATCH"
    MISMATCH = "MISMATCH"
    NOT_FOUND = "NOT_FOUND"


class Source(TextEnum):
    """The part of a document a value was read from."""

    ZONE = "ZONE"
    """The machine-readable zone."""
    PAGE = "PAGE"
    """What is printed for the eye."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a field was read. Its text is not in its representation."""

    source: Source
    quad: Quad
    """Corners on the upright picture, 0-1 across and down, clockwise from the text's own top left."""
    text: str = field(default="", repr=False)
    """As it was recognised there."""


@dataclass(frozen=True, slots=True)
class DocumentFindings:
    """What was read on a document. Personal parts are not in its representation."""

    status: ExtractionStatus
    reader: ReaderClass | None = None
    """The class of the document; None when no reader knows it."""
    legible: bool = True
    """Whether any text was seen at all."""
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """By the keys of G11; never the full number."""
    confidence: Mapping[str, float] = field(default_factory=dict)
    """Of each field, 0-1."""
    number: str | None = field(default=None, repr=False)
    """The full number, as printed without spaces or fillers."""
    check_digits: Mapping[str, bool] = field(default_factory=dict)
    """Whether each check digit holds; empty for a document that has none."""
    impossible_date: bool = False
    """A date that no calendar has although its check digit holds (G80)."""
    repairs: int = 0
    """How many characters the reader corrected because exactly one choice satisfied the check digits."""
    printed: Mapping[str, Agreement] = field(default_factory=dict)
    """How the printed fields agree with those of the machine-readable zone."""
    code: Agreement = Agreement.NOT_FOUND
    """How a QR code agrees with the printed number; an unreadable one is NOT_FOUND."""
    places: Mapping[str, tuple[Place, ...]] = field(default_factory=dict, repr=False)
    """Where each field was read; `document_number` is the place of `number`."""

    @property
    def digits_hold(self) -> bool:
        """Whether no check digit contradicts what was read."""
        return all(self.check_digits.values())


@dataclass(frozen=True, slots=True)
class DocumentPicture:
    """Measurements of the document image."""

    whole: Sharpness
    portrait: Sharpness | None
    """Inside the portrait's box, None without a portrait."""
    shorter_side_px: int


@dataclass(frozen=True, slots=True)
class FacesSeen:
    """The faces on one image, as far as rules need them."""

    count: int
    several_alike: bool
    """Whether a second face is of like size as the best one."""
    width_px: float = 0.0
    """Width of the best face's box."""
    quality: Sharpness | None = None
    """Inside the best face's box."""


@dataclass(frozen=True, slots=True)
class ReuseFacts:
    """Signs that a selfie reuses the document's picture."""

    same_pixels: bool = False
    """The two upright pictures are equal, pixel by pixel."""
    shows_document: bool = False
    """The selfie has a machine-readable zone, or a printed page around the face."""
    parallax: float | None = None
    """Between the two aligned faces (`FaceEngine.parallax`); None when the faces are not of one person."""
    copy_at: float = 0.0
    """Parallaxes up to this one are copies of one photograph."""
    broken: bool = False
    """An engine broke, so nothing was measured."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of an evaluation, by engines or by a sandbox scenario."""

    results: tuple[CheckResult, ...]
    findings: DocumentFindings | None
    """None when the text reader broke."""
    distance: float | None = None
    engine_version: str | None = None
    """The face engine's version, when it was called."""
    reuse: ReuseFacts | None = None
    """What was seen of the selfie beside the document; None without both, and in a sandbox scenario."""
    exempt: bool = False
    """Whether reused pictures are allowed: a specimen in test mode (R2)."""
    face: Embedding | None = field(default=None, repr=False, compare=False)
    """The vector of the face on the selfie, or else on the document; None when none was measured."""
    screenings: tuple[CheckAnswer, ...] = field(default=(), repr=False)
    """What the lists say about the name that was read, check by check."""
    portrait: bytes | None = field(default=None, repr=False)
    """The face cut from the document as a JPEG."""
    bands: Mapping[str, Any] = field(default_factory=dict)
    """The thresholds of each called engine, by its name: those of the policy or its own."""

    @property
    def personal(self) -> PersonalFields:
        """What callers with the right to read it get."""
        if self.findings is None:
            return PersonalFields()
        fields = dict(self.findings.fields)
        number = self.findings.number
        return PersonalFields(
            extracted_fields=fields,
            expires_at=fields.get("expiry_date"),
            issuing_country=fields.get("issuing_state"),
            number_last4=number[-4:] if number else None,
        )


def grade(confidence: Mapping[str, float], required: Sequence[str]) -> ExtractionStatus:
    """Return EXTRACTED when every required field was read, FAILED when none was, else PARTIAL."""
    missing = unread(confidence, required)
    if not missing:
        return ExtractionStatus.EXTRACTED
    return ExtractionStatus.PARTIAL if len(missing) < len(required) else ExtractionStatus.FAILED


def unread(confidence: Mapping[str, float], required: Sequence[str]) -> tuple[str, ...]:
    """Return the required fields that are missing or in doubt."""
    return tuple(name for name in required if confidence.get(name, 0.0) < ENOUGH)
