"""A few thousand old rows are removed whole, in short transactions; the bench of a million judges them."""

from pathlib import Path

from app.adapters.sqlite.record_removal import ALONE_AT_ONCE
from tests.bench.removal import Result, measure


async def test_old_rows_are_removed_and_the_others_stay(tmp_path: Path) -> None:
    result = await measure(tmp_path, 2_000, turns=1)

    assert (result.rows_beside, result.rows_alone) == (1_000, 1_000)
    assert len(result.writer_ms) >= 2_000 // ALONE_AT_ONCE
    assert result.beside


def test_a_long_transaction_and_much_memory_are_named() -> None:
    """The bench can fail."""
    assert len(Result(writer_ms=(1.0, 51.0), grown_mb=500.0).faults()) == 2
    assert Result(writer_ms=(1.0,), grown_mb=5.0).faults() == []
