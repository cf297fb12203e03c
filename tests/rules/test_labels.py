"""Labels are known as a camera leaves them, and words that only resemble them are not."""

import pytest

from streams.verification.readers.anchors import label_of
from streams.verification.readers.nin_slip import LABELS as OF_SLIPS
from streams.verification.readers.visual_zone import LABELS as OF_PASSPORTS


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SURNANE/NON", "surname"),
        ("Sumame: GARCIA", "surname"),
        ("GVEN NAMES PRENOMS", "given_names"),
        ("GINEN NANESIPRENONS", "given_names"),
        ("SEXISEXE", "gender"),
        ("SEXVSEIE", "gender"),
        ("ISSUE DATE", ""),
    ],
)
def test_a_label_blurred_by_motion_is_known(text: str, name: str) -> None:
    assert label_of(text, OF_SLIPS) == name


@pytest.mark.parametrize("text", ["ESSEX", "GARCIA", "OLIVIA, PAUL", "SAMUEL", "MINA", "VIVIEN", "NORMA"])
def test_a_name_is_no_label(text: str) -> None:
    assert label_of(text, OF_SLIPS) is None
    assert label_of(text, OF_PASSPORTS) is None
