"""The global catalogue: which documents of which countries can be chosen, and how each is read (G17, G18)."""

from schemas.base import Frozen, Timestamp
from schemas.enums import DocumentType, ReaderClass, TextEnum


class ExtractionSupport(TextEnum):
    """How the document is read: by a machine, by a reviewer, or not at all."""

    AUTOMATED = "AUTOMATED"
    MANUAL = "MANUAL"
    NONE = "NONE"


class CaptureRequirements(Frozen):
    """What the capture page requests from the person."""

    document_number_required: bool


class Capability(Frozen):
    """An entry of the catalogue."""

    code: str
    country: str
    country_name: str
    document_type: DocumentType
    display_name: str
    enabled: bool = True
    """Disabled entries are still listed."""
    extraction_support: ExtractionSupport
    revision: int = 1
    """One more at each change."""
    capture: CaptureRequirements
    reader: ReaderClass | None = None
    """Present exactly when a machine reads it."""
    created_at: Timestamp
    updated_at: Timestamp
