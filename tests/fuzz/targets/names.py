"""Names, from any text to a score and its parts."""

from schemas.lists import EntityKind
from streams.names.analysis import analyse
from streams.names.scoring import score
from tests.rules.test_names import HOSTILE, SAME

SEEDS = tuple(f"{query}\n{listed}".encode() for _, query, listed in SAME) + tuple(
    name.encode() for name in HOSTILE
)


def target(data: bytes) -> None:
    """Compare the first line with the others."""
    query, _, listed = data.decode(errors="replace").partition("\n")
    for kind in EntityKind:
        score(analyse(query, kind), analyse(listed, kind)).parts()
