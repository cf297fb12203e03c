"""The Merkle tree hash against the vectors of RFC 9162's reference implementation, and its proofs."""

import pytest

from streams.audit.merkle import inclusion_path, is_included, tree_hash

ENTRIES = [
    bytes.fromhex(one)
    for one in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
    )
]  # fmt: skip
"""The leaves of the Certificate Transparency reference tests."""

ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
"""The root of the first 0 to 8 of them."""


@pytest.mark.parametrize("size", range(len(ROOTS)))
def test_s57_the_root_is_that_of_the_reference(size: int) -> None:
    assert tree_hash(ENTRIES[:size]).hex() == ROOTS[size]


@pytest.mark.parametrize("size", range(1, len(ROOTS)))
def test_s57_every_entry_is_proved_and_no_other_is(size: int) -> None:
    entries, root = ENTRIES[:size], bytes.fromhex(ROOTS[size])

    for index, entry in enumerate(entries):
        path = inclusion_path(entries, index)
        assert is_included(entry, index, size, path, root)
        assert not is_included(entry + b"x", index, size, path, root)
        assert not is_included(entry, index, size, [*path, root], root)
        assert not is_included(entry, index, size, path[:-1], root) or size == 1
        assert not is_included(entry, size, size, path, root)


def test_s57_the_path_of_the_reference() -> None:
    """The proof of the first of eight leaves, from the reference tests."""
    path = [step.hex() for step in inclusion_path(ENTRIES, 0)]

    assert path == [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ]
