"""Lists are swapped while a worker screens over them; `python -m tests.chaos.list_swaps` does it longer."""

from pathlib import Path

import pytest

from tests.chaos.fleet import Profile
from tests.chaos.list_swaps import MISSING_EVERY, swap_under_load


@pytest.mark.timeout(600)
async def test_every_answer_is_of_one_state_of_the_lists(tmp_path: Path, profile: Profile) -> None:
    seen, wrong = await swap_under_load(tmp_path, profile, MISSING_EVERY)

    assert wrong == []
    assert seen["versions"] > MISSING_EVERY
    assert min(seen["CLEAR"], seen["ERROR"]) > 0
