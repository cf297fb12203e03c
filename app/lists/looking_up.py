"""Look one name up in every list on disk and in the sandbox, for the command line."""

from app.adapters.files.list_snapshots import ListSnapshots
from app.lists.serving import sandbox_entries
from schemas.lists import SANDBOX, EntityKind
from schemas.screenings import Match, ScreeningTarget
from streams.names.index import NameIndex
from streams.names.matching import Thresholds, find_matches


def look_up(snapshots: ListSnapshots, name: str, kind: EntityKind) -> list[Match]:
    """Return the matches of all lists, best first. Blocking: it reads every list."""
    target = ScreeningTarget(kind=kind, name=name)
    found = find_matches(target, NameIndex(sandbox_entries()), SANDBOX, Thresholds())
    for snapshot in snapshots.current().values():
        index = NameIndex(snapshots.entries(snapshot))
        found += find_matches(target, index, snapshot.name, Thresholds())
    return [one.match for one in sorted(found, key=lambda one: one.rank)]
