"""Documents that contradict themselves in one field: print against zone, a wrong check digit, a QR code."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, timedelta
from typing import Final

from PIL import Image

from app.demo.specimens import Alterations, PassportSpecimen, draw_card_slip, draw_passport
from tests.specimens.people import GIVEN_NAMES, SURNAMES, code, passport, passport_number, portrait, slip

LOOK_ALIKES: Final = {
    "G": "6",
    "6": "G",
    "1": "L",
    "L": "1",
    "S": "8",
    "8": "S",
    "Z": "2",
    "2": "Z",
    "5": "S",
}
"""Characters that a forger changes with a few strokes."""

Altering = Callable[[PassportSpecimen, random.Random], Alterations]


def _printed(field: str, change: Callable[[PassportSpecimen, random.Random], str]) -> Altering:
    return lambda holder, chance: Alterations({field: change(holder, chance)})


def _zone(change: Callable[[PassportSpecimen, random.Random], PassportSpecimen]) -> Altering:
    """Return the page with the zone of somebody else, all its check digits right."""
    return lambda holder, chance: Alterations(lines=change(holder, chance).lines())


def _digit(*places: int) -> Altering:
    """Return the page with one digit of the second line exchanged, its check digits left as they were."""

    def change(holder: PassportSpecimen, chance: random.Random) -> Alterations:
        first, second = holder.lines()
        place = chance.choice(places)
        other = chance.choice(_digits_other_than(second[place]))
        return Alterations(lines=(first, second[:place] + other + second[place + 1 :]))

    return change


def _days(chance: random.Random) -> timedelta:
    return timedelta(chance.randrange(1, 4_000))


def _other(names: tuple[str, ...], name: str, chance: random.Random) -> str:
    return chance.choice([other for other in names if other not in name.split()])


def _other_digit(number: str, chance: random.Random) -> str:
    """Return the number with one digit exchanged for another."""
    place = chance.choice([place for place, one in enumerate(number) if one.isdigit()] or [0])
    return number[:place] + chance.choice(_digits_other_than(number[place])) + number[place + 1 :]


def _digits_other_than(digit: str) -> str:
    return "0123456789".replace(digit, "")


def _other_letter(name: str, chance: random.Random) -> str:
    """Return the name with one letter exchanged for one that is not drawn alike."""
    place = chance.randrange(len(name))
    return name[:place] + chance.choice("AEKMNRTUX".replace(name[place], "")) + name[place + 1 :]


def _text(day: date) -> str:
    return f"{day:%d %b %Y}".upper()


def _look_alike(number: str, chance: random.Random) -> str:
    places = [place for place, one in enumerate(number) if one in LOOK_ALIKES]
    if not places:
        return _other_digit(number, chance)
    place = chance.choice(places)
    return number[:place] + LOOK_ALIKES[number[place]] + number[place + 1 :]


ALTERINGS: Final[Mapping[str, Altering]] = {
    "printed number": _printed("number", lambda h, chance: _other_digit(h.number, chance)),
    "look-alike in the printed number": _printed("number", lambda h, chance: _look_alike(h.number, chance)),
    "printed surname": _printed("surname", lambda h, chance: _other(SURNAMES, h.surname, chance)),
    "letter of the printed surname": _printed("surname", lambda h, chance: _other_letter(h.surname, chance)),
    "printed given names": _printed(
        "given_names", lambda h, chance: _other(GIVEN_NAMES, h.given_names, chance)
    ),
    "printed birth date": _printed("date_of_birth", lambda h, chance: _text(h.date_of_birth - _days(chance))),
    "printed expiry date": _printed("expires", lambda h, chance: _text(h.expires + _days(chance))),
    "printed sex": _printed("sex", lambda h, _: "M" if h.sex == "F" else "F"),
    "check digit": _digit(9, 19, 27, 43),
    "digit of the zone": _digit(13, 14, 18, 21, 22, 26),
    "zone of another number": _zone(lambda h, chance: replace(h, number=passport_number(chance))),
    "zone of another surname": _zone(
        lambda h, chance: replace(h, surname=_other(SURNAMES, h.surname, chance))
    ),
    "zone of another birth date": _zone(
        lambda h, chance: replace(h, date_of_birth=h.date_of_birth - _days(chance))
    ),
    "zone of another expiry date": _zone(lambda h, chance: replace(h, expires=h.expires + _days(chance))),
    "zone of the other sex": _zone(lambda h, _: replace(h, sex="M" if h.sex == "F" else "F")),
}
"""Every field that a passport tells twice, altered in one place."""
SLIP: Final = "number beside a QR code"
KINDS: Final = (*ALTERINGS, SLIP)


def altered(index: int, chance: random.Random) -> tuple[str, Image.Image]:
    """Return which field is altered, and the page."""
    what = KINDS[index % len(KINDS)]
    if what == SLIP:
        owner = slip(chance)
        return what, draw_card_slip(owner, portrait(), code(f"NIN: {_other_digit(owner.number, chance)}"))
    holder = passport(chance)
    return what, draw_passport(holder, portrait(), ALTERINGS[what](holder, chance))
