"""The guard of a list: which new version may replace the last one."""

from datetime import date

import pytest

from streams.lists.guard import Contents, objections

LAST = Contents(1_000, {"birth_dates": 800, "countries": 500}, date(2026, 3, 9))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Contents(1_000, {"birth_dates": 800, "countries": 500}, date(2026, 3, 9)), []),
        (Contents(1_200, {"birth_dates": 900, "countries": 500}, date(2026, 3, 10)), []),
        (Contents(800, {"birth_dates": 640, "countries": 400}), []),
        (Contents(1_201, {"birth_dates": 960, "countries": 600}), ["1201 entries"]),
        (Contents(100, {"birth_dates": 80, "countries": 50}), ["100 entries"]),
        (Contents(1_000, {"birth_dates": 800, "countries": 500}, date(2026, 3, 8)), ["older"]),
        (Contents(1_000, {"birth_dates": 0, "countries": 500}), ["birth_dates"]),
        (Contents(1_000, {"birth_dates": 800, "countries": 500}, failed=100), ["100 of its rows"]),
        (Contents(0, {}), ["no entries", "0 entries", "birth_dates", "countries"]),
    ],
)
def test_g116_a_list_is_replaced_only_by_one_like_it(found: Contents, words: list[str]) -> None:
    against = objections(LAST, found)

    assert len(against) == len(words)
    assert all(word in one for word, one in zip(words, against, strict=True))


def test_g116_the_first_version_needs_entries_and_rows_that_can_be_read() -> None:
    assert objections(None, Contents(3, {})) == []
    assert objections(None, Contents(0, {})) == ["it has no entries"]
    assert objections(None, Contents(3, {}, failed=3)) == ["3 of its rows cannot be read"]
