"""How common the words of a list's names are: those of a large list say more than the packaged names."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from streams.names.analysis import Word, weight_of

_LEAST_ENTRIES: Final = 1_000
"""A smaller list says nothing about how common a name is."""

_RARE_SHARE_LOG10: Final = 4.0
"""A word of one name in 10^4 is rare."""

_LEAST_RARITY: Final = 0.1


class ListRarity:
    """Weighs words by the packaged names and by the share of a list's names that have them."""

    def __init__(self, entries: int, holders: Callable[[str], int]) -> None:
        self._entries = entries
        self._holders = holders
        self._of_text = lru_cache(maxsize=65_536)(self._on_list)

    def weigh(self, word: Word) -> float:
        """Return the weight of a word: the commoner of both counts."""
        return weight_of(word.kind, min(word.rarity, self._of_text(word.text)))

    def _on_list(self, text: str) -> float:
        if self._entries < _LEAST_ENTRIES:
            return 1.0
        share = max(self._holders(text), 1) / self._entries
        return min(1.0, max(_LEAST_RARITY, -math.log10(share) / _RARE_SHARE_LOG10))
