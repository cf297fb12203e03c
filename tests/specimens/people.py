"""Seeded specimen holders: nobody's names, numbers in the forms that states print."""

import random
from datetime import date, timedelta
from importlib.util import find_spec
from pathlib import Path

import segno
from PIL import Image

from app.demo.specimens import PassportSpecimen, SlipSpecimen

SURNAMES = (
    *("ERIKSSON", "OKAFOR", "SMITH", "GARCIA", "LOPEZ", "NAKAMURA"),
    *("ZHANG", "OBI", "WILLIAMSON", "BALOGUN", "DUPONT", "IBRAHIM"),
)
GIVEN_NAMES = (
    *("ANNA", "MARIA", "JOHN", "ADAEZE", "NGOZI", "LI"),
    *("WEI", "PAUL", "GRACE", "YUSUF", "CHINEDU", "OLIVIA"),
)
UNMISTAKABLE = "CFGHJKLMNPRTVWXYZ0123456789"
"""The letters German passports use, chosen there because none is taken for a digit."""

TODAY = date(2026, 1, 1)


def digits(chance: random.Random, count: int) -> str:
    """Return as many random digits."""
    return "".join(chance.choice("0123456789") for _ in range(count))


def passport_number(chance: random.Random) -> str:
    """Return a number as Nigeria, the United States, Italy, France or Germany form theirs."""
    forms = (
        chance.choice("ABCLPXZ") + digits(chance, 8),
        digits(chance, 9),
        chance.choice(("YA", "FK", "XE")) + digits(chance, 7),
        digits(chance, 2) + chance.choice(("AK", "CT", "FV")) + digits(chance, 5),
        "".join(chance.choice(UNMISTAKABLE) for _ in range(9)),
    )
    return chance.choice(forms)


def passport(chance: random.Random) -> PassportSpecimen:
    """Return a passport of Utopia that is valid on `TODAY`."""
    return PassportSpecimen(
        surname=chance.choice(SURNAMES),
        given_names=" ".join(chance.sample(GIVEN_NAMES, chance.choice((1, 2)))),
        number=passport_number(chance),
        date_of_birth=date(1940, 1, 1) + timedelta(chance.randrange(25_000)),
        sex=chance.choice("MF"),
        expires=date(2027, 1, 1) + timedelta(chance.randrange(3_000)),
        personal_number=chance.choice(("", "ZE184226B", digits(chance, 11), digits(chance, 14))),
    )


def slip(chance: random.Random) -> SlipSpecimen:
    """Return a slip with an invented number."""
    return SlipSpecimen(
        number=digits(chance, 11),
        tracking_id="".join(chance.choice(UNMISTAKABLE) for _ in range(15)),
        surname=chance.choice(SURNAMES),
        first_name=chance.choice(GIVEN_NAMES),
        middle_name=chance.choice(GIVEN_NAMES),
        gender=chance.choice("MF"),
    )


def code(text: str) -> list[bytearray]:
    """Return the matrix of a QR code."""
    return list(segno.make(text, micro=False).matrix)


def portrait() -> Image.Image:
    """Return the public-domain portrait that matplotlib carries."""
    spec = find_spec("matplotlib")
    assert spec is not None
    assert spec.origin is not None
    return Image.open(Path(spec.origin).parent / "mpl-data" / "sample_data" / "grace_hopper.jpg")
