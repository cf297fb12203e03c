"""Pieces of texts, and which of them are asked for to find a fragment."""

from itertools import pairwise

import pytest

from app.adapters.shared.trigrams import (
    ASKED,
    LENGTH,
    WINDOW,
    grams_for,
    grams_of,
    is_window_or_longer,
    sampled_grams,
)

LONG = "".join(chr(33 + n) for n in range(90))


def pieces(text: str) -> list[str]:
    """Every run of three bytes."""
    return [text[n : n + LENGTH].encode().hex() for n in range(len(text) - LENGTH + 1)]


@pytest.mark.parametrize("fragment", ["abc", "abcd", "customer-usr", LONG[: ASKED + LENGTH - 1]])
def test_all_pieces_of_a_fragment_are_asked_for(fragment: str) -> None:
    assert list(grams_for(fragment)) == pieces(fragment)


def test_of_many_pieces_some_are_asked_for_from_end_to_end() -> None:
    asked, every = grams_for(LONG), pieces(LONG)

    places = [every.index(one) for one in asked]
    assert (len(asked), places[0], places[-1]) == (ASKED, 0, len(every) - 1)
    assert max(later - earlier for earlier, later in pairwise(places)) <= len(every) // ASKED + 1


@pytest.mark.parametrize("fragment", ["a", "ab", "é"])
def test_a_fragment_shorter_than_a_piece_is_asked_for_itself(fragment: str) -> None:
    assert grams_for(fragment) == (fragment.encode().hex(),)


def test_every_piece_asked_for_is_kept_of_every_text_with_the_fragment() -> None:
    for text in ("customer-17", "Straße 日本", LONG):
        stored = grams_of(text)
        for start in range(len(text)):
            for end in range(start + 3, len(text) + 1):
                assert set(grams_for(text[start:end])) <= stored


@pytest.mark.parametrize("text", ["customer-17", "Straße 日本", "aaaaaaaaaaaa", "abcabcabcabc", LONG])
def test_every_sampled_piece_of_a_fragment_is_sampled_of_the_text(text: str) -> None:
    stored = set(sampled_grams(text))
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            fragment = text[start:end]
            assert set(sampled_grams(fragment)) <= stored
            assert bool(sampled_grams(fragment)) is is_window_or_longer(fragment)


def test_fewer_pieces_are_sampled_than_there_are() -> None:
    assert len(sampled_grams(LONG)) < len(pieces(LONG)) / 2


@pytest.mark.parametrize(
    ("fragment", "found"), [("abcde", False), ("日b", False), ("abcdef", True), ("日本", True)]
)
def test_a_fragment_of_a_whole_window_has_a_sampled_piece(fragment: str, *, found: bool) -> None:
    assert is_window_or_longer(fragment) is found
    assert len(sampled_grams(fragment)) == found
    assert (len(fragment.encode()) - LENGTH + 1 >= WINDOW) is found


def test_the_sample_of_a_stored_text_never_changes() -> None:
    sampled = [bytes.fromhex(gram).decode() for gram in sampled_grams("customer-0001742@acme")]
    assert sampled == ["cus", "sto", "mer", "000", "001", "42@", "2@a"]
