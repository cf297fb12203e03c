"""Half a year of thin traffic: what ends is flat after the third month, and nothing outlives its date."""

from pathlib import Path

from tests.bench.amounts import Amount, Amounts
from tests.bench.year import ENDING, Clock, Year, run_year, sqlite_year


async def test_what_ends_does_not_grow_after_the_third_month(tmp_path: Path) -> None:
    clock = Clock()
    async with sqlite_year(tmp_path, clock) as (stores, counter):
        year = await run_year(stores, counter, clock, days=210, every=6, units=1, image=70_000)

    last, fifth = year.months[-1], year.months[4]
    assert year.faults() == []
    assert {name for name in ENDING if name in last} >= {"record.act", "record.picture", "events", "blobs"}
    for name in (
        "record.act",
        "record.delivery",
        "record.session_watch",
        "record.hold_watch",
        "record.token",
        "events",
    ):
        assert 0 < last[name].rows <= fifth[name].rows + 1, name
    assert last["record.verification"].rows == 35


def test_a_store_that_grows_or_holds_what_is_past_its_date_is_named() -> None:
    """The bench can fail."""
    grown = Year([month_of(size) for size in (10, 20, 30, 30, 40)], ["events is late"])

    assert [fault.split(":")[0] for fault in grown.faults()] == ["events is late", "month 5"]


def month_of(size: int) -> Amounts:
    """A month whose events have so many bytes."""
    return {"events": Amount(1, size), "record.verification": Amount(1, size * size)}
