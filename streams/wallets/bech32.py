"""Bech32 of BIP-173 and Bech32m of BIP-350, and the segregated-witness addresses written in them."""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final

from schemas.wallets import AddressInvalid, AddressRule

_ALPHABET: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_VALUES: Final = {char: value for value, char in enumerate(_ALPHABET)}
_GENERATOR: Final = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_MAX_CHARS: Final = 90
_CHECKSUM_CHARS: Final = 6
_GROUP_BITS: Final = 5
_MAX_VERSION: Final = 16
_PROGRAM_BYTES: Final = range(2, 41)
_VERSION_0_BYTES: Final = frozenset({20, 32})
_FIRST_PRINTABLE: Final = 33
_LAST_PRINTABLE: Final = 126


class Encoding(IntEnum):
    """Which of the two, by what the checksum comes to."""

    BECH32 = 1
    BECH32M = 0x2BC830A3


def decode(text: str) -> tuple[str, list[int], Encoding]:
    """Return the human-readable part in lower case, the groups of five bits, and the encoding.

    Raises:
        AddressInvalid: LENGTH, CHARSET, MIXED_CASE, CHECKSUM.
    """
    if not all(_FIRST_PRINTABLE <= ord(char) <= _LAST_PRINTABLE for char in text):
        raise AddressInvalid(AddressRule.CHARSET)
    if text.lower() != text and text.upper() != text:
        raise AddressInvalid(AddressRule.MIXED_CASE)
    prefix, _, data = text.lower().rpartition("1")
    if len(text) > _MAX_CHARS or not prefix or len(data) < _CHECKSUM_CHARS:
        raise AddressInvalid(AddressRule.LENGTH)
    if any(char not in _VALUES for char in data):
        raise AddressInvalid(AddressRule.CHARSET)
    groups = [_VALUES[char] for char in data]
    sum_ = _polymod([*_expanded(prefix), *groups])
    if sum_ not in set(Encoding):
        raise AddressInvalid(AddressRule.CHECKSUM)
    return prefix, groups[:-_CHECKSUM_CHARS], Encoding(sum_)


def decode_segwit(text: str) -> tuple[str, int, bytes]:
    """Return the human-readable part, the witness version and the witness program.

    Raises:
        AddressInvalid: As `decode`; WITNESS_VERSION, WITNESS_LENGTH, PADDING.
    """
    prefix, groups, encoding = decode(text)
    if not groups:
        raise AddressInvalid(AddressRule.WITNESS_LENGTH)
    version = groups[0]
    if version > _MAX_VERSION:
        raise AddressInvalid(AddressRule.WITNESS_VERSION)
    if encoding is not (Encoding.BECH32M if version else Encoding.BECH32):
        raise AddressInvalid(AddressRule.CHECKSUM)
    program = _bytes_of(groups[1:])
    if len(program) not in _PROGRAM_BYTES or (version == 0 and len(program) not in _VERSION_0_BYTES):
        raise AddressInvalid(AddressRule.WITNESS_LENGTH)
    return prefix, version, program


def encode_segwit(prefix: str, version: int, program: bytes) -> str:
    """Return the address of a witness program."""
    encoding = Encoding.BECH32M if version else Encoding.BECH32
    groups = [version, *_groups_of(program)]
    sum_ = _polymod([*_expanded(prefix), *groups, *bytes(_CHECKSUM_CHARS)]) ^ encoding
    checksum = [sum_ >> _GROUP_BITS * (_CHECKSUM_CHARS - 1 - at) & 31 for at in range(_CHECKSUM_CHARS)]
    return f"{prefix}1" + "".join(_ALPHABET[group] for group in [*groups, *checksum])


def _polymod(values: Iterable[int]) -> int:
    """Return the checksum of the groups, over GF(32) (BIP-173)."""
    sum_ = 1
    for value in values:
        top = sum_ >> 25
        sum_ = (sum_ & 0x1FFFFFF) << _GROUP_BITS ^ value
        for position, generator in enumerate(_GENERATOR):
            if top >> position & 1:
                sum_ ^= generator
    return sum_


def _expanded(prefix: str) -> list[int]:
    return [*(ord(char) >> _GROUP_BITS for char in prefix), 0, *(ord(char) & 31 for char in prefix)]


def _bytes_of(groups: Sequence[int]) -> bytes:
    bits = "".join(f"{group:05b}" for group in groups)
    length = len(bits) // 8 * 8
    padding = bits[length:]
    if len(padding) >= _GROUP_BITS or "1" in padding:
        raise AddressInvalid(AddressRule.PADDING)
    return bytes(int(bits[at : at + 8], 2) for at in range(0, length, 8))


def _groups_of(program: bytes) -> list[int]:
    bits = "".join(f"{byte:08b}" for byte in program)
    return [int(bits[at : at + _GROUP_BITS].ljust(_GROUP_BITS, "0"), 2) for at in range(0, len(bits), 5)]
