"""Load a published list into a snapshot: read it, check it against the last one, make it current."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

from app.adapters.files.list_snapshots import ListSnapshots, Snapshot, Written
from schemas.enums import CheckKind
from schemas.lists import PUBLISHED_LIST_CHECKS
from schemas.problems import VeristreamError
from streams.lists.formats import ofac_csv
from streams.lists.formats.reading import FormatUnreadable, Reading
from streams.lists.formats.recognising import read_published
from streams.lists.guard import Contents, objections


class LoadRefused(VeristreamError):
    """The new version may not replace the last one, which stays; the message says why."""


class GuardRefused(LoadRefused):
    """The file can be read, and differs too much from the last version."""


def check_of(name: str) -> CheckKind:
    """Return the check a published list belongs to."""
    return PUBLISHED_LIST_CHECKS.get(name, CheckKind.SANCTIONS)


def load_list(
    snapshots: ListSnapshots, name: str, files: Sequence[Path], now: datetime, *, force: bool = False
) -> Snapshot:
    """Read the files of a list and make them its current version. Blocking.

    `force` lets a list through that the guard refuses; one that cannot be read, or is empty, never.

    Raises:
        LoadRefused: The last version stays, and its status says why.
        OSError: A file cannot be opened.
    """
    previous = snapshots.current().get(name)
    try:
        with _reading(files) as reading:
            written = snapshots.write(name, reading.entries)
        return _replace(snapshots, name, previous, reading, written, now, force=force)
    except (FormatUnreadable, LoadRefused) as error:
        if previous:
            snapshots.describe(previous.model_copy(update={"problem": str(error)}))
        kind = GuardRefused if isinstance(error, GuardRefused) else LoadRefused
        raise kind(str(error)) from error


@contextmanager
def _reading(files: Sequence[Path]) -> Iterator[Reading]:
    """Open the files: one, or OFAC's `sdn.csv`, `alt.csv` and `add.csv` in this order."""
    with ExitStack() as stack:
        opened = [stack.enter_context(path.open("rb")) for path in files]
        yield ofac_csv.read(*opened) if len(opened) > 1 else read_published(opened[0])


def _replace(
    snapshots: ListSnapshots,
    name: str,
    previous: Snapshot | None,
    reading: Reading,
    written: Written,
    now: datetime,
    *,
    force: bool,
) -> Snapshot:
    found = Contents(written.entries, written.filled, reading.source_date, reading.failed)
    against = objections(previous.contents() if previous else None, found)
    if against and not (force and found.entries):
        snapshots.discard(written)
        raise GuardRefused("; ".join(against))
    snapshot = Snapshot(
        name=name,
        check=check_of(name),
        sha256=written.sha256,
        source_date=reading.source_date or now.date(),
        loaded_at=now,
        entries=written.entries,
        failed=reading.failed,
        filled=written.filled,
    )
    snapshots.activate(written, snapshot)
    return snapshot
