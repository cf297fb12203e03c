"""Compare the values a tenant declared about a document with those read on it; pure (G30).

A declared value is compared, never copied. It was typed by a person, so a difference needs a review
and never rejects by itself. A value that cannot be compared, because nothing of it was read or because it
is written in another script, is ignored.
"""

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, Final

from schemas.enums import FieldKey
from schemas.reasons import ReasonCode
from schemas.verifications import DeclaredDocument
from streams.verification.observations import DocumentFindings
from streams.verification.readers.mrz_names import country, plain_words, words

LAST: Final = 4
"""How many characters of the number a tenant may declare (interface section 4.4)."""

LAST4_POINTER: Final = "/document/number_last4"
FIELDS_POINTER: Final = "/document/extracted_fields"
"""Pointer of the declared values in the body of the request (interface section 4.4)."""

READ_AS: Final[Mapping[str, str]] = {
    FieldKey.FIRST_NAME: FieldKey.GIVEN_NAMES,
    FieldKey.GENDER: FieldKey.SEX,
    FieldKey.SEX: FieldKey.GENDER,
}
"""What a declared field is compared with when the document has no field of its own name."""

_NAMES: Final = frozenset(
    {FieldKey.SURNAME, FieldKey.GIVEN_NAMES, FieldKey.FULL_NAME, FieldKey.FIRST_NAME, FieldKey.MIDDLE_NAME}
)
_DATES: Final = frozenset({FieldKey.DATE_OF_BIRTH, FieldKey.EXPIRY_DATE})
_COUNTRIES: Final = frozenset({FieldKey.ISSUING_STATE, FieldKey.NATIONALITY})
_SEXES: Final = frozenset({FieldKey.SEX, FieldKey.GENDER})


def disagreements(declared: DeclaredDocument, findings: DocumentFindings) -> Iterator[str]:
    """Yield a JSON pointer into the request (RFC 6901) for each value declared otherwise than read."""
    last4, number = declared.number_last4, findings.number
    if last4 and number and _plain(last4)[-LAST:] != _plain(number)[-LAST:]:
        yield LAST4_POINTER
    for pointer, key, stated, read in _pairs(declared, findings):
        if not _same(key, stated, read):
            yield pointer


def code_at(pointer: str) -> ReasonCode:
    """Return the reason of a declared value that differs, by its place in the request."""
    return ReasonCode.NUMBER_MISMATCH if pointer == LAST4_POINTER else ReasonCode.DECLARED_FIELD_MISMATCH


def _pairs(declared: DeclaredDocument, findings: DocumentFindings) -> Iterator[tuple[str, str, str, str]]:
    """Yield (pointer, key, declared, read) for every declared value of which something was read."""
    stated = [(f"{FIELDS_POINTER}/{key}", key, value) for key, value in declared.extracted_fields.items()]
    stated.append(("/document/issuing_country", FieldKey.ISSUING_STATE, declared.issuing_country))
    stated.append(("/document/expires_at", FieldKey.EXPIRY_DATE, declared.expires_at))
    for pointer, key, value in stated:
        known = key if key in findings.fields else READ_AS.get(key, key)
        read = findings.fields.get(known)
        if _comparable(value) and _comparable(read):
            yield pointer, known, str(value), str(read)


def _comparable(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip() != ""


def _same(key: str, stated: str, read: str) -> bool:
    if key in _DATES:
        return _day(stated) == _day(read)
    if key in _NAMES:
        return _name_agrees(stated, read)
    if key in _COUNTRIES:
        return country(_plain(stated)) == country(_plain(read))
    if key in _SEXES:
        return _plain(stated)[:1] == _plain(read)[:1]
    return _plain(stated) == _plain(read)


def _name_agrees(stated: str, read: str) -> bool:
    """Return whether one name contains all words of the other; zones and people shorten names."""
    spellings = {frozenset(words(stated)), frozenset(plain_words(stated))} - {frozenset()}
    as_read = {frozenset(words(read)), frozenset(plain_words(read))} - {frozenset()}
    if not spellings or not as_read:
        return True
    return any(one <= other or other <= one for one in spellings for other in as_read)


def _plain(text: str) -> str:
    return "".join(letter for letter in text.upper() if letter.isalnum())


def _day(text: str) -> date | str:
    """Return the day of a date or a time; other text is returned unchanged."""
    try:
        return date.fromisoformat(text.strip()[:10])
    except ValueError:
        return text
