"""Whose case a reviewer may not conclude (S74)."""

import pytest

from schemas.ids import UserId
from schemas.people import Reviewer, Role
from streams.reviews.rules import is_about
from tests.builders import ACME, NOW

ADA = Reviewer(
    reviewer_id=UserId("usr_1"), tenant_id=ACME, email="ada@acme.example", name="Ada", role=Role.OWNER,
    created_at=NOW, updated_at=NOW,
)  # fmt: skip


@pytest.mark.parametrize(
    "subject",
    ["ada@acme.example", "Ada@ACME.example", "usr_1", "sim:approved@ada@acme.example", "sim:x:Y@usr_1"],
)
def test_s74_a_subject_of_ones_own_id_or_address_is_oneself(subject: str) -> None:
    assert is_about(subject, ADA)


@pytest.mark.parametrize(
    "subject", ["ada", "usr_12", "ada@acme.example.org", "x:ada@acme.example", "sim:approved"]
)
def test_s74_any_other_subject_is_somebody_else(subject: str) -> None:
    assert not is_about(subject, ADA)
