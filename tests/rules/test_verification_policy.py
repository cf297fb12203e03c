from typing import Any

import pytest
from pydantic import ValidationError

from schemas.enums import CheckKind
from schemas.reasons import Severity
from streams.verification.policy import PROVIDED, FaceBands, VerificationPolicy


def test_the_default_policy_asks_for_no_liveness() -> None:
    by_choice = {CheckKind.LIVENESS, CheckKind.SANCTIONS, CheckKind.PEP, CheckKind.ADVERSE_MEDIA}
    assert set(VerificationPolicy().required_checks) == PROVIDED - by_choice


@pytest.mark.parametrize("kind", sorted(set(CheckKind) - PROVIDED))
def test_a_policy_with_a_check_nothing_stands_behind_does_not_load(kind: CheckKind) -> None:
    with pytest.raises(ValidationError, match="no provider"):
        VerificationPolicy(required_checks=(CheckKind.FACE_MATCH, kind))


@pytest.mark.parametrize(
    "wrong",
    [
        {"required_checks": ["SHOE_SIZE"]},
        {"required_checks": []},
        {"required_checks": ["LIVENESS", "LIVENESS"]},
        {"revision": 0},
        {"points": {"LOW": 5}},
        {"points": {"LOW": -1, "MEDIUM": 20, "HIGH": 50, "CRITICAL": 80}},
        {"face_bands": {"engine": {"accept_at": 0.7, "reject_above": 0.6}}},
        {"liveness_bands": {"engine": {"pass_at": 0.3, "fail_below": 0.6}}},
        {"engine_deadline_s": 0},
        {"threshold": 0.5},
    ],
)
def test_a_policy_that_makes_no_sense_does_not_load(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        VerificationPolicy.model_validate(wrong)


def test_a_policy_survives_being_written_and_read() -> None:
    policy = VerificationPolicy(revision=3, face_bands={"sface": FaceBands(accept_at=0.6, reject_above=0.7)})

    assert VerificationPolicy.from_bytes(policy.to_bytes()) == policy


def test_the_points_are_published_for_every_severity() -> None:
    assert set(VerificationPolicy().points) == set(Severity)
