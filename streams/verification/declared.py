"""Whether what the tenant declared about a document agrees with what was read on it; pure (G30).

A declared value is compared, never copied. Somebody typed it, so a difference is a question for a person
and never rejects by itself. A value that cannot be compared, because nothing of it was read or because it
is written in letters the document has not, says nothing.
"""

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, Final

from schemas.reasons import ReasonCode
from schemas.verifications import DeclaredDocument
from streams.verification.findings import DocumentFindings
from streams.verification.readers.countries import country
from streams.verification.readers.names import plain_words, words

LAST: Final = 4
"""How many characters of the number a tenant may declare (interface section 4.4)."""

READ_AS: Final[Mapping[str, str]] = {
    "last_name": "surname",
    "family_name": "surname",
    "given_name": "given_names",
    "first_name": "given_names",
    "name": "full_name",
    "birth_date": "date_of_birth",
    "dob": "date_of_birth",
    "expires_at": "expiry_date",
    "expiration_date": "expiry_date",
    "country": "issuing_state",
    "issuing_country": "issuing_state",
    "gender": "sex",
    "sex": "gender",
}
"""Other names under which a key of G11 may be declared; used only when the key itself was not read."""

_NAMES: Final = frozenset({"surname", "given_names", "full_name", "first_name", "middle_name"})
_DATES: Final = frozenset({"date_of_birth", "expiry_date"})
_COUNTRIES: Final = frozenset({"issuing_state", "nationality"})
_SEXES: Final = frozenset({"sex", "gender"})


def disagreements(declared: DeclaredDocument, findings: DocumentFindings) -> Iterator[ReasonCode]:
    """Yield the reasons of what was declared otherwise than read."""
    last4, number = declared.number_last4, findings.number
    if last4 and number and _plain(last4)[-LAST:] != _plain(number)[-LAST:]:
        yield ReasonCode.NUMBER_MISMATCH
    if any(not _same(key, told, read) for key, told, read in _pairs(declared, findings)):
        yield ReasonCode.DECLARED_FIELD_MISMATCH


def _pairs(declared: DeclaredDocument, findings: DocumentFindings) -> Iterator[tuple[str, str, str]]:
    """Yield (key, declared, read) for every declared value of which something was read."""
    told = [*declared.extracted_fields.items()]
    told += [("issuing_state", declared.issuing_country), ("expiry_date", declared.expires_at)]
    for key, value in told:
        known = key if key in findings.fields else READ_AS.get(key, key)
        read = findings.fields.get(known)
        if _comparable(value) and _comparable(read):
            yield known, str(value), str(read)


def _comparable(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip() != ""


def _same(key: str, told: str, read: str) -> bool:
    if key in _DATES:
        return _day(told) == _day(read)
    if key in _NAMES:
        return _name_agrees(told, read)
    if key in _COUNTRIES:
        return country(_plain(told)) == country(_plain(read))
    if key in _SEXES:
        return _plain(told)[:1] == _plain(read)[:1]
    return _plain(told) == _plain(read)


def _name_agrees(told: str, read: str) -> bool:
    """Tell whether one name holds all words of the other; a zone cuts long names, people leave words out."""
    spellings = {frozenset(words(told)), frozenset(plain_words(told))} - {frozenset()}
    as_read = {frozenset(words(read)), frozenset(plain_words(read))} - {frozenset()}
    if not spellings or not as_read:
        return True
    return any(one <= other or other <= one for one in spellings for other in as_read)


def _plain(text: str) -> str:
    return "".join(letter for letter in text.upper() if letter.isalnum())


def _day(text: str) -> date | str:
    """Return the day of a date or of a time; text that is neither stays itself and equals no day."""
    try:
        return date.fromisoformat(text.strip()[:10])
    except ValueError:
        return text
