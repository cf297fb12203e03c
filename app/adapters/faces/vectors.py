"""Table of face vectors in memory, compared all at once with a query."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streams.vision_ports import Embedding

BLOCK_NUMBERS: Final = 262_144
"""Numbers of a block, 1 MiB: 2,048 rows of 128 each. Growing copies nothing, and a product of that size stays
on one thread: OpenBLAS shares larger ones among threads, which then wait for each other at twice the cost."""

_NOBODY: Final = 0
_NEVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows of the table; a free row holds zeros and is infinitely far from every query."""

    vectors: NDArray[np.float32]
    squares: NDArray[np.float32]
    """The square of each vector's length."""
    subjects: NDArray[np.uint64]
    created_at: NDArray[np.int64]

    @classmethod
    def build(cls, rows: int, size: int) -> "_Block":
        return cls(
            np.zeros((rows, size), np.float32),
            np.full(rows, np.inf, np.float32),
            np.full(rows, _NOBODY, np.uint64),
            np.full(rows, _NEVER, np.int64),
        )

    def write(self, place: int, face: Embedding, subject: int, created_at: int) -> None:
        self.vectors[place] = face
        self.squares[place] = face @ face
        self.subjects[place] = subject
        self.created_at[place] = created_at

    def wipe(self, place: int) -> None:
        self.vectors[place] = 0.0
        self.squares[place] = np.inf
        self.subjects[place] = _NOBODY
        self.created_at[place] = _NEVER


class FaceVectors:
    """A table of face vectors by name; removed ones are overwritten with zeros.

    Not for several threads at a time. Subjects are numbers (1 to 2^64 - 1), moments milliseconds.
    """

    def __init__(self, size: int, most: int) -> None:
        """Make an empty table for `most` vectors of `size` numbers."""
        self._size = size
        self._rows = max(1, BLOCK_NUMBERS // size)
        self._most = most
        self._blocks: list[_Block] = []
        self._places: dict[str, int] = {}
        self._names: list[str] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    @property
    def full(self) -> bool:
        """Whether a newer face replaces the oldest."""
        return len(self) >= self._most

    def put(self, name: str, face: Embedding, *, subject: int, created_at: int) -> None:
        """Keep a face, in place of one of the same name; a full table keeps the newest faces.

        Raises:
            ValueError: It has another length, or something in it is no number.
        """
        if face.shape != (self._size,) or not np.isfinite(face).all():
            raise ValueError(f"a face is {self._size} numbers")
        self.remove(name)
        if self.full:
            oldest, moment = self._oldest()
            if created_at <= moment:
                return
            self._remove_at(oldest)
        place = self._free.pop() if self._free else self._extend()
        self._block(place).write(place % self._rows, face, subject, created_at)
        self._places[name] = place
        self._names[place] = name

    def remove(self, name: str) -> None:
        """Remove a face; an unknown name is ignored."""
        place = self._places.get(name)
        if place is not None:
            self._remove_at(place)

    def remove_subject(self, subject: int) -> None:
        """Remove every face of a subject."""
        for place in list(self._where(lambda block: block.subjects == subject)):
            self._remove_at(place)

    def remove_before(self, moment: int) -> None:
        """Remove every face that was created before the moment."""
        for place in list(self._where(lambda block: block.created_at < moment)):
            self._remove_at(place)

    def nearest(self, face: Embedding, *, other_than: int) -> tuple[int, tuple[str, Embedding] | None]:
        """Return how many faces of other subjects there are, and the nearest of them with its name."""
        best, place, own = np.inf, -1, 0
        wanted = np.ascontiguousarray(face, np.float32)
        for number, block in enumerate(self._blocks):
            apart = block.vectors @ wanted
            apart *= -2.0
            apart += block.squares
            of_subject = block.subjects == other_than
            own += int(np.count_nonzero(of_subject))
            apart[of_subject] = np.inf
            nearest = int(apart.argmin())
            if apart[nearest] < best:
                best, place = float(apart[nearest]), number * self._rows + nearest
        if place < 0:
            return len(self) - own, None
        vector: Embedding = self._block(place).vectors[place % self._rows].copy()
        return len(self) - own, (self._names[place], vector)

    def _where(self, of: Callable[[_Block], NDArray[np.bool_]]) -> Iterator[int]:
        for number, block in enumerate(self._blocks):
            yield from (int(place) + number * self._rows for place in np.flatnonzero(of(block)))

    def _oldest(self) -> tuple[int, int]:
        """Return the place of the oldest face, and its moment."""
        oldest = [int(block.created_at.argmin()) for block in self._blocks]
        moments = [int(block.created_at[place]) for block, place in zip(self._blocks, oldest, strict=True)]
        number = int(np.argmin(moments))
        return number * self._rows + oldest[number], moments[number]

    def _remove_at(self, place: int) -> None:
        del self._places[self._names[place]]
        self._names[place] = ""
        self._block(place).wipe(place % self._rows)
        self._free.append(place)

    def _extend(self) -> int:
        if len(self._names) == len(self._blocks) * self._rows:
            self._blocks.append(_Block.build(self._rows, self._size))
        self._names.append("")
        return len(self._names) - 1

    def _block(self, place: int) -> _Block:
        return self._blocks[place // self._rows]
