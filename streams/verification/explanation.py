"""Explain a verification's decision from its stored record; pure (P17)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from schemas.enums import ExtractionStatus, FieldKey, ReaderClass
from schemas.explanations import ExplainedCheck, ExplainedField, ExplainedQuad, Explanation, FieldState
from schemas.verifications import CheckResult, DeclaredDocument, PersonalFields, StoredVerification
from streams.verification.declared_values import FIELDS_POINTER, LAST4_POINTER, READ_AS, disagreements
from streams.verification.observations import Agreement, DocumentFindings, Source
from streams.verification.readers.likeness import compact
from streams.verification.rules import SHOWN_AS

LAST4: Final = "number_last4"
"""The one part of the number that is ever shown (G11)."""

_NOT_SHOWN: Final = frozenset(
    {"verification", "session_id", "livemode", "checks", "risk_points", "risk_terms", "request_id"}
)
"""Fields of a stored verification left out of the explanation, beside the sealed ones."""

_PLACES: Final[Mapping[str, str]] = {
    "/document/issuing_country": FieldKey.ISSUING_STATE,
    "/document/expires_at": FieldKey.EXPIRY_DATE,
    LAST4_POINTER: LAST4,
}
"""The field that each declared value outside `extracted_fields` is compared with."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The stored reading. Personal parts are not in its representation."""

    personal: PersonalFields = field(default_factory=PersonalFields, repr=False)
    reader: str | None = None
    confidence: Mapping[str, float] = field(default_factory=dict)
    printed: Mapping[str, str] = field(default_factory=dict)
    """How the print agrees with the zone, by field."""
    places: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict, repr=False)
    """Where each field was read, as stored from `observations.Place`."""

    @property
    def findings(self) -> DocumentFindings:
        """The reading in the form in which declared values are compared with it."""
        fields, last4 = self.personal.extracted_fields, self.personal.number_last4
        return DocumentFindings(ExtractionStatus.EXTRACTED, fields=fields, number=last4)

    @property
    def values(self) -> dict[str, Any]:
        """What was read, by field."""
        last4 = self.personal.number_last4
        own = {LAST4: last4} if last4 is not None else {}
        return {**self.personal.extracted_fields, **own}


def explain(
    stored: StoredVerification, reading: Reading, declared: DeclaredDocument | None, *, personal: bool
) -> Explanation:
    """Return the explanation of the decision; without `personal` it has no field values."""
    further = stored.model_dump(mode="json", exclude=set(_NOT_SHOWN), exclude_none=True)
    shown = {name: value for name, value in further.items() if not name.startswith("sealed")}
    fields = explain_fields(reading, declared or DeclaredDocument())
    return Explanation(
        **shown,
        checks=tuple(_check(result) for result in stored.checks),
        risk=stored.risk,
        declared=declared if personal else None,
        fields=fields if personal else tuple(map(_without_values, fields)),
    )


def explain_fields(reading: Reading, declared: DeclaredDocument) -> tuple[ExplainedField, ...]:
    """Return every field read or declared, and how its sources agree."""
    read, stated = reading.values, _declared(declared, reading.values)
    differing = {_key_at(pointer, read) for pointer in disagreements(declared, reading.findings)}
    printed = {LAST4 if key == "document_number" else key: said for key, said in reading.printed.items()}
    zone = reading.reader == ReaderClass.TD3_MRZ
    fields = []
    for key in (*read, *(key for key in stated if key not in read)):
        value = read.get(key)
        at = reading.places.get("document_number" if key == LAST4 else key, ())
        page = _printed(key, at) if printed.get(key) == Agreement.MISMATCH else None
        agrees = not zone or printed.get(key) == Agreement.MATCH
        fields.append(
            ExplainedField(
                key=key,
                zone=value if zone else None,
                page=value if agrees else page,
                declared=stated.get(key),
                state=_state(value, stated.get(key), printed.get(key), differs=key in differing),
                confidence=reading.confidence.get("document_number" if key == LAST4 else key),
                quads=tuple(_quads(at)) or None,
            )
        )
    return tuple(fields)


def _printed(key: str, at: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the text read on the page; of a number only its end."""
    texts = [str(one.get("text", "")) for one in at if one.get("source") == Source.PAGE]
    text = " ".join(texts) or None
    return compact(text)[-4:] if text is not None and key == LAST4 else text


def _quads(at: Sequence[Mapping[str, Any]]) -> Iterator[ExplainedQuad]:
    """Yield the valid places."""
    for one in at:
        with suppress(ValidationError):
            yield ExplainedQuad(source=one["source"], corners=one["quad"])


def _state(read: Any, stated: Any, printed: str | None, *, differs: bool) -> FieldState:
    both = read is not None and stated is not None
    otherwise = both and not isinstance(stated, str) and stated != read  # such as an object of check results
    if differs or otherwise or printed == Agreement.MISMATCH:
        return FieldState.DIFFERS
    return FieldState.SAME if both or printed == Agreement.MATCH else FieldState.ONE_SOURCE


def _declared(declared: DeclaredDocument, read: Mapping[str, Any]) -> dict[str, Any]:
    """Return the declared values under the names of the fields they are compared with."""
    own = {_known(key, read): value for key, value in declared.extracted_fields.items()}
    beside = {
        FieldKey.ISSUING_STATE: declared.issuing_country,
        FieldKey.EXPIRY_DATE: declared.expires_at,
        LAST4: declared.number_last4,
    }
    stated = own | {str(key): value for key, value in beside.items() if value is not None}
    return {key: value for key, value in stated.items() if value is not None}


def _key_at(pointer: str, read: Mapping[str, Any]) -> str:
    return _PLACES.get(pointer) or _known(pointer.removeprefix(f"{FIELDS_POINTER}/"), read)


def _known(key: str, read: Mapping[str, Any]) -> str:
    return str(key if key in read else READ_AS.get(key, key))


def _check(result: CheckResult) -> ExplainedCheck:
    values = result.model_dump(exclude={"verdict"})
    return ExplainedCheck(**values, verdict=SHOWN_AS[result.verdict])


def _without_values(explained: ExplainedField) -> ExplainedField:
    return explained.model_copy(update=dict.fromkeys(("zone", "page", "declared", "quads")))
