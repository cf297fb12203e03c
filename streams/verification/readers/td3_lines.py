"""The two lines of a TD3 machine-readable zone: where each field stands, and its check digits.

ICAO Doc 9303, eighth edition: part 3 section 4.9 (check digits), part 4 section 4.2 (the TD3 lines).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LENGTH: Final = 44
"""Characters in a line (part 4 section 4.2.1)."""
FILLER: Final = "<"
NAMES: Final = slice(5, 44)
"""The name field of the first line."""
NUMBER: Final = slice(0, 9)
NATIONALITY: Final = slice(10, 13)
BIRTH: Final = slice(13, 19)
SEX: Final = 20
EXPIRY: Final = slice(21, 27)
OPTIONAL: Final = slice(28, 42)
"""Personal number or other optional data of the issuer."""

_WEIGHTS: Final = (7, 3, 1)
_VALUES: Final = {FILLER: 0} | {character: index for index, character in enumerate("0123456789")}
_LETTERS: Final = {chr(ord("A") + index): 10 + index for index in range(26)}
VALUE_OF: Final = _VALUES | _LETTERS
"""What each character counts in a check digit (part 3 section 4.9)."""

CHECKED: Final[Mapping[str, tuple[tuple[slice, ...], int]]] = {
    "document_number": ((NUMBER,), 9),
    "date_of_birth": ((BIRTH,), 19),
    "expiry_date": ((EXPIRY,), 27),
    "personal_number": ((OPTIONAL,), 42),
    "composite": ((slice(0, 10), slice(13, 20), slice(21, 43)), 43),
}
"""What each check digit of the second line covers, and where it stands (counted from 0)."""


def check_digit(text: str) -> str:
    """Return the check digit of a text of A-Z, 0-9 and `<` (part 3 section 4.9: weights 7 3 1, modulo 10).

    Raises:
        KeyError: The text holds another character.
    """
    total = sum(VALUE_OF[character] * _WEIGHTS[index % 3] for index, character in enumerate(text))
    return str(total % 10)


def verify(second: str) -> dict[str, bool]:
    """Return for each check digit of a second line of 44 characters whether it holds.

    The personal number's may be `<` when that field is empty (part 4 section 4.2.2.2, position 43).
    """
    results: dict[str, bool] = {}
    for name, (parts, position) in CHECKED.items():
        covered = "".join(second[part] for part in parts)
        holds = second[position] == check_digit(covered)
        empty = name == "personal_number" and not covered.strip(FILLER) and second[position] == FILLER
        results[name] = holds or empty
    return results


@dataclass(frozen=True, slots=True)
class Td3Fields:
    """What goes into a machine-readable zone, already in its alphabet."""

    surname: str
    """Words joined by `<`."""
    given_names: str
    """Words joined by `<`; empty when the holder has none."""
    number: str
    birth: str
    """YYMMDD."""
    sex: str
    """M, F or `<`."""
    expiry: str
    """YYMMDD."""
    issuer: str = "UTO"
    nationality: str = "UTO"
    optional: str = ""
    document_code: str = "P"


def compose(fields: Td3Fields) -> tuple[str, str]:
    """Write the two lines with their check digits; names are cut at the end of the line."""
    names = f"{fields.surname}<<{fields.given_names}" if fields.given_names else fields.surname
    head = f"{fields.document_code:<<2}{fields.issuer:<<3}"
    first = f"{head}{names}"[:LENGTH].ljust(LENGTH, FILLER)
    number, optional = f"{fields.number:<<9}", f"{fields.optional:<<14}"
    number += check_digit(number)
    birth = fields.birth + check_digit(fields.birth)
    expiry = fields.expiry + check_digit(fields.expiry)
    optional += check_digit(optional) if optional.strip(FILLER) else FILLER
    composite = check_digit(number + birth + expiry + optional)
    return first, f"{number}{fields.nationality:<<3}{birth}{fields.sex}{expiry}{optional}{composite}"
