"""Worker, broker, names and backtest process die under a load of transactions; each counts once.

`python -m tests.chaos.transaction_kills` kills more often, under more of them.
"""

from pathlib import Path

import pytest

from tests.chaos.fleet import Profile
from tests.chaos.sizes import commands, kills, seeded
from tests.chaos.transaction_kills import VICTIMS, kill_under_load


@pytest.mark.timeout(1_200)
async def test_transactions_survive_the_death_of_every_process(tmp_path: Path, profile: Profile) -> None:
    killed, wrong = await kill_under_load(
        tmp_path, profile, commands(240), kills(len(VICTIMS)), seeded("transactions")
    )

    assert wrong == []
    assert set(killed) == set(VICTIMS)
