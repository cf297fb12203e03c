"""Measure the name screening: what it finds, what it raises, what it costs, beside nomenklatura's logic-v2.

Run with `python -m tests.bench.names`; `--peer PYTHON` names an interpreter with nomenklatura in it,
`--pairs FILE` the labelled pairs `contrib/name_bench/cases.csv` of nomenklatura's repository, which no
package carries. The listed names are made here, of packaged common names and invented families: the
published lists are not fetched.
"""

import argparse
import csv
import json
import random
import resource
import statistics
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Final, NamedTuple

from schemas.lists import EntityKind, NameEntry
from schemas.screenings import ScreeningTarget
from streams.names.analysis import analyse
from streams.names.index import NameIndex
from streams.names.matching import Thresholds, find_matches
from streams.names.scoring import score

THRESHOLD: Final = Thresholds().possible
PERSONS_OF_TEN: Final = 7
SAMPLE: Final = 1_000
_SYLLABLES: Final = """
ba da fa ga ha ka la ma na ra sa ta za bo do go ko lo mo no ro so bi di gi ki li mi ni ri si ti bu du ku lu mu
nu ru su kha sha gha mah jad rav zor vel tun dan sal har nik pet gor sev
"""
SYLLABLES: Final = tuple(_SYLLABLES.split())
_TRADES: Final = """
Trading Company LLC|Shipping Co Ltd|Industries Group|General Trading FZE|Petroleum Company|Bank
Engineering JSC|Import Export Ltd|Construction Company|Holding AG|Aviation Services|Logistics GmbH
"""
TRADES: Final = tuple(trade for line in _TRADES.strip().splitlines() for trade in line.split("|"))
KIND_OF: Final = {"Person": EntityKind.PERSON, "Vessel": EntityKind.VESSEL}

PEER_PROGRAM: Final = """
import json, resource, sys, time
from pathlib import Path
from followthemoney import model
from nomenklatura.matching import get_algorithm
algorithm = get_algorithm("logic-v2")
config = algorithm.default_config()
def entity(schema, name, key):
    return model.get_proxy({"id": key + name, "schema": schema, "properties": {"name": [name]}})
rows = json.load(sys.stdin)
algorithm.compare(entity("Person", "Warm Up", "a"), entity("Person", "Up Warm", "b"), config)
pages = int(Path("/proc/self/statm").read_text().split()[1])
begun = time.process_time()
scores = [algorithm.compare(entity(s, a, "a"), entity(s, b, "b"), config).score for s, a, b in rows]
cpu_s = time.process_time() - begun
json.dump({"scores": scores, "cpu_s": cpu_s, "resident_bytes": pages * resource.getpagesize()}, sys.stdout)
"""


class Pair(NamedTuple):
    """Two names and whether people say they are one."""

    schema: str
    query: str
    listed: str
    same: bool


class PeerAnswer(NamedTuple):
    """What logic-v2 said of pairs of names."""

    scores: list[float]
    cpu_s: float
    """What the scores took."""
    resident_bytes: int
    """The memory of its process before them, when it had made one comparison."""


def main() -> None:
    """Run what the options ask for, and print one line per measure."""
    options = read_options()
    if options.pairs:
        print_pairs(read_pairs(options.pairs), options.peer)
    entries = make_entries(options.names, random.Random(1))
    before_mb, begun = memory_mb(), time.process_time()
    index = NameIndex(entries)
    say("build", names=options.names, cpu_s=time.process_time() - begun, grown_mb=memory_mb() - before_mb)
    for kind in (EntityKind.PERSON, EntityKind.ORGANISATION):
        print_mutated(index, [entry for entry in entries if entry.kind is kind])
    print_common(index, options.peer)
    say("memory", whole_process_mb=memory_mb())


def read_options() -> argparse.Namespace:
    """Read the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=int, default=20_000, help="listed names")
    parser.add_argument("--pairs", type=Path, help="cases.csv of nomenklatura's name bench")
    parser.add_argument("--peer", type=Path, help="an interpreter that has nomenklatura")
    return parser.parse_args()


def read_pairs(path: Path) -> list[Pair]:
    """Read the labelled pairs."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Pair(row["schema"], row["name1"], row["name2"], row["is_match"] == "true")
            for row in csv.DictReader(file)
        ]


def print_pairs(pairs: Sequence[Pair], peer: Path | None) -> None:
    """Print F1 on the labelled pairs, ours and the peer's."""
    kinds = [KIND_OF.get(pair.schema, EntityKind.ORGANISATION) for pair in pairs]
    ours = [
        score(analyse(pair.query, kind), analyse(pair.listed, kind)).score
        for pair, kind in zip(pairs, kinds, strict=True)
    ]
    say("pairs", count=len(pairs), f1=f1(pairs, ours))
    if peer:
        theirs = ask_peer(peer, [(pair.schema, pair.query, pair.listed) for pair in pairs])
        say("pairs of logic-v2", f1=f1(pairs, theirs.scores))


def f1(pairs: Sequence[Pair], scores: Iterable[float]) -> float:
    """Return the harmonic mean of precision and recall at the threshold."""
    said = [value >= THRESHOLD for value in scores]
    right = sum(pair.same and found for pair, found in zip(pairs, said, strict=True))
    return 2 * right / (sum(said) + sum(pair.same for pair in pairs))


def ask_peer(peer: Path, rows: Sequence[tuple[str, str, str]]) -> PeerAnswer:
    """Let logic-v2 score the pairs."""
    printed = subprocess.run(  # noqa: S603 - the interpreter that who measures named
        [peer, "-c", PEER_PROGRAM],
        input=json.dumps(rows),
        capture_output=True,
        check=True,
        text=True,
        timeout=900,
    )
    return PeerAnswer(**json.loads(printed.stdout))


def make_entries(count: int, chance: random.Random) -> list[NameEntry]:
    """Make the listed entries: seven of ten are persons."""
    given, _ = common_names()
    return [
        NameEntry(
            entity_id=str(number),
            kind=EntityKind.PERSON if number % 10 < PERSONS_OF_TEN else EntityKind.ORGANISATION,
            names=(_person(given, chance) if number % 10 < PERSONS_OF_TEN else _organisation(chance),),
        )
        for number in range(count)
    ]


def _person(given: Sequence[str], chance: random.Random) -> str:
    first = chance.choices(given, k=chance.choice([1, 1, 2]))
    return " ".join([*first, *(_family(chance) for _ in range(chance.choice([1, 1, 2])))]).title()


def _organisation(chance: random.Random) -> str:
    return " ".join([*(_family(chance).title() for _ in range(chance.choice([1, 2]))), chance.choice(TRADES)])


def _family(chance: random.Random) -> str:
    return "".join(chance.choices(SYLLABLES, k=chance.choice([2, 3, 3, 4])))


def common_names() -> tuple[list[str], list[str]]:
    """Return the packaged names that very many, and many, share."""
    text = resources.files("streams.names").joinpath("common_names.json").read_text(encoding="utf-8")
    packaged = json.loads(text)
    return packaged["very_common"].split(), packaged["common"].split()


def print_mutated(index: NameIndex, entries: Sequence[NameEntry]) -> None:
    """Print how many listed names are found with words shuffled and one letter replaced."""
    chance = random.Random(2)
    sample = chance.sample(entries, min(SAMPLE, len(entries)))
    found, times = 0, []
    for entry in sample:
        target = ScreeningTarget(kind=entry.kind, name=mutate(entry.names[0], chance))
        begun = time.process_time()
        matches = find_matches(target, index, "bench", Thresholds())
        times.append(time.process_time() - begun)
        found += any(one.match.name == entry.names[0] for one in matches)
    say(f"mutated {entry.kind}", found=found / len(sample), **milliseconds(times))


def mutate(name: str, chance: random.Random) -> str:
    """Shuffle the words and replace one letter."""
    words = name.split()
    chance.shuffle(words)
    text = " ".join(words)
    at = chance.choice([place for place, char in enumerate(text) if char.isalpha()])
    return text[:at] + chance.choice("abcdefghijklmnopqrstuvwxyz") + text[at + 1 :]


def print_common(index: NameIndex, peer: Path | None) -> None:
    """Print how many everyday names raise an alert, and the peer's count over the same candidates."""
    given, families = common_names()
    chance = random.Random(3)
    names = [f"{chance.choice(given)} {chance.choice(families)}".title() for _ in range(SAMPLE)]
    alerts, times = 0, []
    for name in names:
        target = ScreeningTarget(kind=EntityKind.PERSON, name=name)
        begun = time.process_time()
        alerts += bool(find_matches(target, index, "bench", Thresholds()))
        times.append(time.process_time() - begun)
    say("common names", alerts=alerts / len(names), **milliseconds(times))
    if peer:
        _print_common_of_peer(index, peer, names)


def _print_common_of_peer(index: NameIndex, peer: Path, names: Sequence[str]) -> None:
    rows = list(_candidate_rows(index, names))
    answer = ask_peer(peer, rows)
    raised = {query for (_, query, _), value in zip(rows, answer.scores, strict=True) if value >= THRESHOLD}
    mean_ms = answer.cpu_s / len(names) * 1000
    say("common names of logic-v2", alerts=len(raised) / len(names), mean_ms=mean_ms)


def _candidate_rows(index: NameIndex, names: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    for name in names:
        for candidate in index.candidates(analyse(name, EntityKind.PERSON), 60):
            yield "Person", name, index.entry(candidate.entity).names[candidate.name]


def milliseconds(times: Sequence[float]) -> dict[str, float]:
    """Return mean and 95th percentile of CPU times in milliseconds."""
    return {"mean_ms": statistics.fmean(times) * 1000, "p95_ms": statistics.quantiles(times, n=20)[-1] * 1000}


def memory_mb() -> float:
    """Return the largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def say(what: str, **values: float) -> None:
    """Print one measure."""
    print(what, *(f"{name}={value:.4g}" for name, value in values.items()))  # noqa: T201 - a bench talks


if __name__ == "__main__":
    main()
