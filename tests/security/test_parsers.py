"""Everything that reads what an outsider wrote has a fuzz target, and takes its seeds whole and cut (S46)."""

import pytest

from tests.fuzz.checks import HANG_CPU_S, checked, load, names

PARSERS = {"json", "cursors", "mrz", "nin", "webhook_urls", "wire"}


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
