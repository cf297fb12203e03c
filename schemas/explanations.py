"""The explanation of a verification's decision, for reviewers (P17, G16)."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from schemas.base import Frozen
from schemas.enums import CheckKind, Recommendation, ShownVerdict, TextEnum
from schemas.reasons import ReasonCode
from schemas.verifications import DeclaredDocument, Risk


class FieldState(TextEnum):
    """How the sources of a field agree."""

    SAME = "SAME"
    DIFFERS = "DIFFERS"
    ONE_SOURCE = "ONE_SOURCE"


class FieldSource(TextEnum):
    """Which part of a document a field was read from."""

    ZONE = "ZONE"
    PAGE = "PAGE"


Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Corner = tuple[Share, Share]


class ExplainedQuad(Frozen):
    """Where a field was read on the document image, turned upright."""

    source: FieldSource
    corners: tuple[Corner, Corner, Corner, Corner]
    """As shares of the image's width and height, clockwise from the text's own top left."""


class ExplainedCheck(Frozen):
    """What one check found, and the number behind it."""

    model_config = ConfigDict(extra="allow")

    kind: CheckKind
    verdict: ShownVerdict
    score: float | None = None
    reasons: tuple[ReasonCode, ...] = ()
    detail: str
    """One sentence, without personal data."""
    pointers: tuple[str, ...] = ()
    """Which declared fields differ from what was read."""


class ExplainedField(Frozen):
    """One field of the document. The values are shown to those who may see evidence."""

    key: str
    zone: Any = None
    """As the machine-readable zone says."""
    page: Any = None
    """As printed on the page: what the zone says where they agree, else the text that was read there."""
    declared: Any = None
    """As the request said."""
    state: FieldState
    confidence: float | None = None
    """Of the reading, 0-1; absent where it is not stored any more."""
    quads: tuple[ExplainedQuad, ...] | None = None
    """Where it was read; shown to those who may see evidence."""


class RevealedNumber(Frozen):
    """The whole number of a document."""

    number: str
    """As it was read, without spaces and fillers."""


class Explanation(Frozen):
    """The explanation of the automatic decision; a reviewer's decision is in the case."""

    model_config = ConfigDict(extra="allow")

    checks: tuple[ExplainedCheck, ...]
    risk: Risk
    recommendation: Recommendation | None = None
    """The recommended decision; only for verifications that need a review."""
    policy_revision: int
    thresholds: dict[str, Any]
    """The thresholds of the policy at that time."""
    declared: DeclaredDocument | None = None
    """What the request said of the document; shown to those who may see evidence."""
    fields: tuple[ExplainedField, ...]
