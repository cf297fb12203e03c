"""A few thousand old rows are removed whole, in short transactions; the bench of a million judges them."""

from pathlib import Path

from tests.bench.removal import Result, measure


async def test_old_rows_are_removed_and_the_others_stay(tmp_path: Path) -> None:
    result = await measure(tmp_path, 600)

    assert result.rows == 600
    assert len(result.writer_ms) >= 600 // 50
    assert result.beside


def test_a_long_transaction_and_much_memory_are_named() -> None:
    """The bench can fail."""
    assert len(Result(writer_ms=(1.0, 51.0), grown_mb=500.0).faults()) == 2
    assert Result(writer_ms=(1.0,), grown_mb=5.0).faults() == []
