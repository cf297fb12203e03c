"""Count the distinct hashes of a field: the hashes themselves while they are few, then a HyperLogLog sketch.

P. Flajolet, E. Fusy, O. Gandouet, F. Meunier, "HyperLogLog: the analysis of a near-optimal cardinality
estimation algorithm", AofA 2007; with hashes of 64 bits the correction for large ranges is not needed
(S. Heule, M. Nunkesser, A. Hall, "HyperLogLog in Practice", EDBT 2013). A set is bytes: a tag, then items.
"""

import math
from collections.abc import Iterable
from typing import Final

HASH_BYTES: Final = 8
MAX_HASHES: Final = 64
"""So many distinct hashes are stored one by one."""
REGISTERS: Final = 256
"""The standard error of the estimate is 1.04 / sqrt(REGISTERS) = 6.5 %."""
_RANK_BITS: Final = 8 * HASH_BYTES - 8
"""The first byte of a hash chooses the register, the leading zeros of the rest are its rank."""
_ALPHA: Final = 0.7213 / (1 + 1.079 / REGISTERS)
_HASHES: Final = b"h"
_SKETCH: Final = b"s"
EMPTY: Final = b""


def is_sketch(distinct: bytes) -> bool:
    """Return whether the set is a sketch, so that its count is an estimate."""
    return distinct[:1] == _SKETCH


def union(sets: Iterable[bytes]) -> bytes:
    """Return the union: a sketch when one of them is, or when it has more than `MAX_HASHES` hashes."""
    hashes: set[bytes] = set()
    registers = bytearray(REGISTERS)
    sketched = False
    for distinct in sets:
        if is_sketch(distinct):
            sketched = True
            registers = bytearray(map(max, registers, distinct[1:]))
        else:
            hashes.update(_split(distinct))
    if not sketched and len(hashes) <= MAX_HASHES:
        return _HASHES + b"".join(sorted(hashes)) if hashes else EMPTY
    for hashed in hashes:
        _note(registers, hashed)
    return _SKETCH + bytes(registers)


def count(distinct: Iterable[bytes]) -> int:
    """Return the size of the union; an estimate when one of the sets is a sketch, else exact."""
    sets = list(distinct)
    hashes = {hashed for one in sets if not is_sketch(one) for hashed in _split(one)}
    if not any(map(is_sketch, sets)):
        return len(hashes)
    registers = bytearray(REGISTERS)
    for one in sets:
        if is_sketch(one):
            registers = bytearray(map(max, registers, one[1:]))
    for hashed in hashes:
        _note(registers, hashed)
    return _estimate(registers)


def single(hashed: bytes | None) -> bytes:
    """Return the set of one hash, or of none."""
    return EMPTY if hashed is None else _HASHES + hashed


def _split(distinct: bytes) -> Iterable[bytes]:
    return (distinct[at : at + HASH_BYTES] for at in range(1, len(distinct), HASH_BYTES))


def _note(registers: bytearray, hashed: bytes) -> None:
    """Raise the hash's register to its rank."""
    rest = int.from_bytes(hashed[1:], "big")
    rank = _RANK_BITS - rest.bit_length() + 1
    registers[hashed[0]] = max(registers[hashed[0]], rank)


def _estimate(registers: bytearray) -> int:
    """Return the estimate; small ones by linear counting, as the paper says."""
    raw = _ALPHA * REGISTERS * REGISTERS / sum(2.0**-rank for rank in registers)
    zeros = registers.count(0)
    if raw <= 2.5 * REGISTERS and zeros:
        return round(REGISTERS * math.log(REGISTERS / zeros))
    return round(raw)
