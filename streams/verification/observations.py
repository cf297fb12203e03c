"""What was seen, as plain values: the input of the pure rules, whichever engine saw it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from schemas.enums import ExtractionStatus, ReaderClass
from schemas.verifications import CheckResult, PersonalFields
from streams.vision_ports import Embedding, Quad, Sharpness


class Agreement(StrEnum):
    """How a second place on the document speaks of a field."""

    MATCH = "MATCH"
    MISMATCH = "MISMATCH"
    NOT_FOUND = "NOT_FOUND"


class Source(StrEnum):
    """Which part of a document says something."""

    ZONE = "ZONE"
    """The machine-readable zone."""
    PAGE = "PAGE"
    """What is printed for the eye."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a field was read. Its text never shows in its representation."""

    source: Source
    quad: Quad
    """Corners on the upright picture, 0-1 across and down, clockwise from the text's own top left."""
    text: str = field(default="", repr=False)
    """As it was recognised there."""


@dataclass(frozen=True, slots=True)
class DocumentFindings:
    """What was read on a document. Personal parts never show in its representation."""

    status: ExtractionStatus
    reader: ReaderClass | None = None
    """The class whose marks were found; None when no reader knows the document."""
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
    """How many characters the reader put right because exactly one choice satisfied the check digits."""
    printed: Mapping[str, Agreement] = field(default_factory=dict)
    """How the printed fields speak of those in the machine-readable zone."""
    code: Agreement = Agreement.NOT_FOUND
    """How a QR code speaks of the printed number; an unreadable one is NOT_FOUND."""
    places: Mapping[str, tuple[Place, ...]] = field(default_factory=dict, repr=False)
    """Where each field was read; `document_number` speaks of `number`."""

    @property
    def digits_hold(self) -> bool:
        """Whether no check digit contradicts what was read."""
        return all(self.check_digits.values())


@dataclass(frozen=True, slots=True)
class DocumentPicture:
    """What the pixels of the document image are like."""

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
    """What was seen of a selfie beside its document."""

    same_pixels: bool = False
    """The two upright pictures are equal, pixel by pixel."""
    shows_document: bool = False
    """The selfie has a machine-readable zone, or a printed page around the face."""
    parallax: float | None = None
    """Between the two aligned faces (`FaceEngine.parallax`); None when the faces are not of one person."""
    copy_at: float = 0.0
    """Parallaxes up to this one are copies of one photograph."""
    broken: bool = False
    """An engine broke, so that nothing is known."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All that evaluating brought to light, whether by engines or by a sandbox scenario."""

    results: tuple[CheckResult, ...]
    findings: DocumentFindings | None
    """None when the text reader broke."""
    distance: float | None = None
    engine_version: str | None = None
    """The face engine's, when it was asked."""
    reuse: ReuseFacts | None = None
    """What was seen of the selfie beside the document; None without both, and in a sandbox scenario."""
    exempt: bool = False
    """Whether its pictures may have been used before: a specimen in test mode (R2)."""
    face: Embedding | None = field(default=None, repr=False, compare=False)
    """The vector of the face on the selfie, or else on the document; None when none was measured."""
    portrait: bytes | None = field(default=None, repr=False)
    """The face cut from the document as a JPEG."""
    bands: Mapping[str, Any] = field(default_factory=dict)
    """The thresholds of each engine that was asked, by its name: those of the policy or its own."""

    @property
    def personal(self) -> PersonalFields:
        """What is told to those who may read it."""
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
