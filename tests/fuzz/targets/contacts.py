"""Telephone numbers, e-mail and postal addresses of parties, from any text to what is found in them."""

from collections.abc import Callable

from streams.contacts.address import examine_address
from streams.contacts.details import ContactDetail, examine_email, examine_phone

COUNTRIES = (None, "NG", "GE", "US")
SEEDS = (
    b"+442079460958",
    b"08031234567",
    b"+1 (650) 253-0000 ext. 12",
    b"ada.okafor+pay@example.com",
    "ada@b\u00fccher.example".encode(),
    b'"ada okafor"@[192.0.2.1]',
    b"12 Main Street, Tbilisi, Georgia",
    "\u0443\u043b. \u041b\u0435\u043d\u0438\u043d\u0430 1, \u0414\u043e\u043d\u0435\u0446\u043a".encode(),
    b"Broad Street 1\nLagos; Nigeria",
)


def target(data: bytes) -> None:
    """Examine the text as each of them; what was normalised is its own normal form."""
    text = data.decode(errors="replace")
    for country in COUNTRIES:
        _again(examine_phone(text, country), lambda normal: examine_phone(normal, None))
        examine_address(text, country)
    _again(examine_email(text), examine_email)


def _again(found: ContactDetail, examine: Callable[[str], ContactDetail]) -> None:
    if found.normalized is not None and examine(found.normalized).normalized != found.normalized:
        raise AssertionError("a normalised contact is another contact")
