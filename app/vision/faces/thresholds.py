"""Default thresholds of face comparison, and the bounds of configured ones."""

from typing import Final

PASS_AT: Final = 0.50
FAIL_AT: Final = 0.65
"""Euclidean distances of the policy: in the sets measured, all of them small, no two people are closer than
0.615 and a genuine pair lies at 0.613, so between the two a person looks."""

PASS_MOST: Final = PASS_AT
"""A deployment may accept less than the default does, never more."""
FAIL_MOST: Final = 2.0
"""No two faces lie as far apart; from there on nothing is rejected by its distance."""
