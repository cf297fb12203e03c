"""What reads an outsider's text has a fuzz target, which takes its seeds, whole, cut and changed (S46)."""

import random
from collections.abc import Iterator

import pytest

from tests.fuzz.checks import HANG_CPU_S, checked, load, names
from tests.fuzz.targets import broker

CHANGES = 30
"""Changed inputs per seed; enough to notice a target that no longer runs."""

MAX_SEEDS = 40
"""Seeds of one target tried here, so that the suite stays short."""
PARSERS = {"json", "cursors", "mrz", "nin", "webhook_urls", "wire"}


@pytest.fixture(scope="module", autouse=True)
def broker_closed() -> Iterator[None]:
    """Stop the broker that the inputs of its target started."""
    yield
    broker.close()


@pytest.mark.parametrize("name", names())
def test_a_fuzz_target_takes_its_seeds_and_changed_ones(name: str) -> None:
    loaded = load(name)
    run = checked(loaded.target, HANG_CPU_S)
    chance = random.Random(1)
    assert loaded.seeds
    for seed in chance.sample(loaded.seeds, min(MAX_SEEDS, len(loaded.seeds))):
        run(seed)
        for _ in range(CHANGES):
            run(changed(seed, chance))


def changed(seed: bytes, chance: random.Random) -> bytes:
    """Return the seed with one part cut, repeated or overwritten."""
    start = chance.randrange(len(seed) + 1)
    end = min(len(seed), start + chance.choice((0, 1, 2, 4, 8)))
    put = chance.choice(
        (b"", seed[start:end] * 2, chance.randbytes(end - start), b"\xff" * 4, b"\x7f\xff\xff\xff")
    )
    return seed[:start] + put + seed[end:]


def test_s46_every_parser_has_a_target() -> None:
    assert set(names()) >= PARSERS


@pytest.mark.parametrize("name", sorted(PARSERS - {"wire"}))
def test_s46_a_target_takes_whatever_stands_behind_its_first_byte(name: str) -> None:
    """Empty, one byte, and each seed cut at each place."""
    loaded = load(name)
    run = checked(loaded.target, HANG_CPU_S)
    for seed in (b"", b"\0", *loaded.seeds):
        for end in range(0, len(seed), max(1, len(seed) // 50)):
            run(seed[:end])
