"""How backtests are named and listed in the store; pure."""

from typing import Final

from schemas.backtests import BacktestWatch, StoredBacktest
from schemas.ids import PLATFORM, BacktestId, TenantId
from schemas.policy_records import StoredText
from schemas.problems import NotFound
from streams.ports.records import BY_AGE, Record, RecordKind, Records
from streams.verification.records import by_mode

UNFINISHED: Final = ("unfinished", "all")
"""Lists the watches of backtests that a worker has to run."""


def backtest_records(stored: StoredBacktest, text: bytes, fingerprint: str) -> tuple[Record, ...]:
    """Return the first records of a backtest: what is asked, the text, and the watch."""
    tenant_id, about, at = stored.tenant_id, stored.backtest_id, stored.created_at
    indexes = (by_mode(stored.livemode), BY_AGE)
    body = stored.to_bytes()
    written = StoredText(text=text).to_bytes()
    watch = BacktestWatch(tenant_id=tenant_id, backtest_id=about).to_bytes()
    return (
        Record(tenant_id, RecordKind.BACKTEST, about, body, at, fingerprint=fingerprint, indexes=indexes),
        Record(tenant_id, RecordKind.BACKTEST_TEXT, about, written, at, indexes=(BY_AGE,)),
        Record(PLATFORM, RecordKind.BACKTEST_WATCH, about, watch, at, indexes=(UNFINISHED, BY_AGE)),
    )


def changed(record: Record, after: StoredBacktest) -> Record:
    """Return the next version of a backtest's record."""
    indexes, version = (by_mode(after.livemode), BY_AGE), record.version + 1
    return Record(
        record.tenant_id, record.kind, record.id, after.to_bytes(), record.created_at,
        version=version, indexes=indexes,
    )  # fmt: skip


def ended_watch(watch: Record) -> Record:
    """Return the watch of a finished backtest, which is listed by age alone."""
    version = watch.version + 1
    return Record(
        PLATFORM, watch.kind, watch.id, watch.body, watch.created_at, version=version, indexes=(BY_AGE,)
    )


async def load_backtest(
    records: Records, tenant_id: TenantId, backtest_id: BacktestId
) -> tuple[Record, StoredBacktest]:
    """Return a backtest with its record, or raise `NotFound`."""
    record = await records.get(tenant_id, RecordKind.BACKTEST, backtest_id)
    return record, StoredBacktest.from_bytes(record.body)


async def load_text(records: Records, stored: StoredBacktest) -> bytes:
    """Return the text that is tested."""
    record = await records.get(stored.tenant_id, RecordKind.BACKTEST_TEXT, stored.backtest_id)
    return StoredText.from_bytes(record.body).text


async def watch_of(records: Records, backtest_id: BacktestId) -> Record | None:
    """Return the watch of a backtest while it is not finished."""
    try:
        watch = await records.get(PLATFORM, RecordKind.BACKTEST_WATCH, backtest_id)
    except NotFound:
        return None
    return watch if UNFINISHED in watch.indexes else None
