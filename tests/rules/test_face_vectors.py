"""The table of face vectors beside plain arithmetic, through blocks, removals and its limit."""

import numpy as np
import pytest

from app.adapters.faces.vectors import BLOCK_NUMBERS, FaceVectors
from schemas.problems import VeristreamError
from streams.ports.errors import Damaged
from streams.verification.face_search import pack_face, unpack_face
from streams.vision_ports import Embedding


def vectors(count: int, size: int = 8) -> Embedding:
    """The same numbers in every run."""
    return np.random.default_rng(5).normal(size=(count, size)).astype(np.float32)


def test_the_nearest_is_what_comparing_one_by_one_finds() -> None:
    known, asked = vectors(2 * BLOCK_NUMBERS // 64 + 10, 64), vectors(40, 64)[20:] * 0.7
    table = FaceVectors(64, most=100_000)
    for number, vector in enumerate(known):
        table.put(f"{number}", vector, subject=number % 7 + 1, created_at=number)

    for other_than in (1, 7, 99):
        others = [number for number in range(len(known)) if number % 7 + 1 != other_than]
        for vector in asked:
            expected = others[int(np.linalg.norm(known[others] - vector, axis=1).argmin())]
            compared, found = table.nearest(vector, other_than=other_than)
            assert found is not None
            assert (compared, found[0]) == (len(others), f"{expected}")
            assert np.array_equal(found[1], known[expected])


def test_nobody_is_near_in_an_empty_table_or_among_ones_own_faces() -> None:
    table = FaceVectors(8, most=10)
    assert table.nearest(vectors(1)[0], other_than=1) == (0, None)

    table.put("own", vectors(1)[0], subject=1, created_at=1)

    assert table.nearest(vectors(1)[0], other_than=1) == (0, None)


@pytest.mark.parametrize("how", ["by name", "by subject", "by age"])
def test_what_is_removed_is_overwritten_and_its_place_used_again(how: str) -> None:
    table, known = FaceVectors(8, most=10), vectors(3)
    for number, vector in enumerate(known):
        table.put(f"{number}", vector, subject=number + 1, created_at=number)

    match how:
        case "by name":
            table.remove("0")
        case "by subject":
            table.remove_subject(1)
        case _:
            table.remove_before(1)
    (block,) = table._blocks

    assert not block.vectors[0].any()
    assert table.nearest(known[0], other_than=9)[0] == 2
    table.put("3", known[0], subject=4, created_at=3)
    assert np.array_equal(block.vectors[0], known[0])
    found = table.nearest(known[0], other_than=9)[1]
    assert found is not None
    assert found[0] == "3"


def test_a_face_put_again_under_its_name_is_one_face() -> None:
    table, known = FaceVectors(8, most=2), vectors(2)
    table.put("a", known[0], subject=1, created_at=1)
    table.put("a", known[1], subject=1, created_at=1)

    assert (len(table), "a" in table, "b" in table) == (1, True, False)
    assert table.nearest(known[1], other_than=9)[0] == 1


@pytest.mark.parametrize(
    "vector", [np.zeros(7, np.float32), np.full(8, np.nan, np.float32), np.full(8, np.inf, np.float32)]
)
def test_what_is_no_vector_of_the_table_is_refused(vector: Embedding) -> None:
    with pytest.raises(ValueError, match="8 numbers"):
        FaceVectors(8, most=2).put("a", vector, subject=1, created_at=1)


def test_a_packed_face_is_the_same_face_again() -> None:
    packed = pack_face("engine+detector@12345678", vectors(1, 128)[0])

    version, vector = unpack_face(packed)

    assert (version, len(packed)) == ("engine+detector@12345678", 24 + 1 + 512)
    assert np.array_equal(vector, vectors(1, 128)[0])


@pytest.mark.parametrize("packed", [b"", b"engine@1", b"engine@1\x00", b"engine@1\x00abc"])
def test_what_was_not_packed_here_is_damaged(packed: bytes) -> None:
    assert issubclass(Damaged, VeristreamError)
    with pytest.raises(Damaged):
        unpack_face(packed)
