"""Base58 and Base58Check, as Bitcoin's addresses use them; TRON's use the second, Solana's the first."""

import hashlib
from typing import Final

from schemas.wallets import AddressInvalid, AddressRule

ALPHABET: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
"""Without 0, I, O and l, which look like others."""
_VALUES: Final = {char: value for value, char in enumerate(ALPHABET)}
_CHECKSUM_BYTES: Final = 4


def decode(text: str) -> bytes:
    """Return the bytes; each leading 1 is a byte of zero.

    Raises:
        AddressInvalid: CHARSET.
    """
    number = 0
    for char in text:
        if char not in _VALUES:
            raise AddressInvalid(AddressRule.CHARSET)
        number = number * len(ALPHABET) + _VALUES[char]
    zeros = len(text) - len(text.lstrip(ALPHABET[0]))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")


def encode(payload: bytes) -> str:
    """Return the text of the bytes, of which there is one."""
    number = int.from_bytes(payload, "big")
    digits = ""
    while number:
        number, digit = divmod(number, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    return ALPHABET[0] * (len(payload) - len(payload.lstrip(b"\0"))) + digits


def without_checksum(checked: bytes) -> bytes:
    """Return the payload before the checksum.

    Raises:
        AddressInvalid: CHECKSUM.
    """
    payload, checksum = checked[:-_CHECKSUM_BYTES], checked[-_CHECKSUM_BYTES:]
    if _checksum(payload) != checksum:
        raise AddressInvalid(AddressRule.CHECKSUM)
    return payload


def encode_check(payload: bytes) -> str:
    """Return the text of the payload with its checksum."""
    return encode(payload + _checksum(payload))


def _checksum(payload: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(payload).digest()).digest()[:_CHECKSUM_BYTES]
