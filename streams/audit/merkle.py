"""The Merkle tree hash of RFC 9162 section 2.1, over a list of entries, and proofs that it holds one. Pure.

Leaves are hashed behind 0x00 and nodes behind 0x01, so that neither can be taken for the other.
"""

import hashlib
from collections.abc import Sequence


def tree_hash(entries: Sequence[bytes]) -> bytes:
    """Return the root over the entries (RFC 9162 section 2.1.1), SHA-256; of none: the hash of nothing."""
    if not entries:
        return hashlib.sha256().digest()
    level = [hashlib.sha256(b"\x00" + entry).digest() for entry in entries]
    while len(level) > 1:
        odd = level[len(level) // 2 * 2 :]  # the last of an odd number moves up as it is
        level = [_node(*pair) for pair in zip(level[::2], level[1::2], strict=False)] + odd
    return level[0]


def inclusion_path(entries: Sequence[bytes], index: int) -> list[bytes]:
    """Return the hashes that lead from the entry at `index` to the root (RFC 9162 section 2.1.3.1)."""
    if len(entries) <= 1:
        return []
    split = 1 << (len(entries) - 1).bit_length() - 1
    if index < split:
        return [*inclusion_path(entries[:split], index), tree_hash(entries[split:])]
    return [*inclusion_path(entries[split:], index - split), tree_hash(entries[:split])]


def is_included(entry: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Return whether the path leads from entry to root of `size` entries (RFC 9162 section 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    place, last, found = index, size - 1, hashlib.sha256(b"\x00" + entry).digest()
    for step in path:
        if last == 0:
            return False
        if place & 1 or place == last:
            found = _node(step, found)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            found = _node(found, step)
        place, last = place >> 1, last >> 1
    return last == 0 and found == root


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()
