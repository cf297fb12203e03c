"""Read an address of Bitcoin, an EVM chain, TRON, Solana or another chain, by the rules of G123."""

import re
from collections.abc import Callable
from typing import Final

from Crypto.Hash import keccak

from schemas.transactions import Chain
from schemas.wallets import AddressInvalid, AddressRule, WalletAddress, WalletFormat
from streams.wallets import base58, bech32

_MAIN_NETWORK: Final = "bc"
_TEST_NETWORKS: Final = frozenset({"tb", "bcrt"})
_SEGWIT: Final = re.compile(r"(?:bc|tb|bcrt)1", re.IGNORECASE)
_EVM: Final = re.compile(r"0x[0-9a-fA-F]*")
_EVM_CHARS: Final = 42
_TRON_HEX: Final = re.compile(r"41[0-9a-fA-F]{40}")
_BASE58_CHARS: Final = range(25, 46)
"""Lengths of the texts of 25 and of 32 bytes, and one more."""
_CHECKED_BYTES: Final = 25
_SOL_BYTES: Final = 32
_OTHER_CHARS: Final = range(8, 129)
_TRON_VERSION: Final = 0x41
_P2TR: Final = (1, 32)
_VERSIONS: Final = {
    0x00: (Chain.BTC, WalletFormat.P2PKH),
    0x05: (Chain.BTC, WalletFormat.P2SH),
    _TRON_VERSION: (Chain.TRON, WalletFormat.TRON_BASE58),
}
_TEST_VERSIONS: Final = frozenset({0x6F, 0xC4, 0xA0})
"""P2PKH and P2SH of Bitcoin's test networks, and TRON's."""
_VERSION_0: Final = {20: WalletFormat.P2WPKH, 32: WalletFormat.P2WSH}


def read(text: str, chain: Chain | None = None) -> WalletAddress:
    """Return the address in its one spelling; without a chain its form says which it is of.

    Raises:
        AddressInvalid: It fails a rule.
    """
    if not text:
        raise AddressInvalid(AddressRule.EMPTY)
    if chain is Chain.OTHER:
        return _other(text)
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise AddressInvalid(AddressRule.CHARSET)
    found = _reader(text, chain)(text)
    if chain not in (None, found.chain):
        raise AddressInvalid(AddressRule.CHAIN_MISMATCH)
    return found


def spellings(text: str) -> tuple[str, ...]:
    """Return what lists are asked for when the chain is OTHER: the text and its spelling on a known chain."""
    try:
        return tuple(dict.fromkeys((text, read(text).normalized)))
    except AddressInvalid:
        return (text,)


def _reader(text: str, chain: Chain | None) -> Callable[[str], WalletAddress]:
    """Return what reads addresses that begin like the text."""
    if text.startswith("0x"):
        return _evm
    if _SEGWIT.match(text) and not _is_base58(text):
        return _segwit
    if _TRON_HEX.fullmatch(text):
        return _tron_hex
    if chain is None and len(text) not in _BASE58_CHARS:
        raise AddressInvalid(AddressRule.UNKNOWN_FORMAT)
    if chain is None and any(char not in base58.ALPHABET for char in text):
        raise AddressInvalid(AddressRule.UNKNOWN_FORMAT)
    return _evm if chain is Chain.EVM else _base58


def _is_base58(text: str) -> bool:
    """Return whether a text of both cases, as no address of bech32 is, is an address of base 58."""
    if text in {text.lower(), text.upper()}:
        return False
    try:
        _base58(text)
    except AddressInvalid:
        return False
    return True


def _evm(text: str) -> WalletAddress:
    if not _EVM.fullmatch(text):
        raise AddressInvalid(AddressRule.CHARSET if text.startswith("0x") else AddressRule.UNKNOWN_FORMAT)
    if len(text) != _EVM_CHARS:
        raise AddressInvalid(AddressRule.LENGTH)
    digits = text[2:]
    checksummed = _with_checksum(digits.lower())
    if digits not in {digits.lower(), digits.upper()} and text != checksummed:
        raise AddressInvalid(AddressRule.CHECKSUM)
    return WalletAddress(normalized=checksummed, chain=Chain.EVM, format=WalletFormat.EVM_HEX)


def _with_checksum(digits: str) -> str:
    """Return the address with the case of its letters as EIP-55 wants it."""
    hashed = keccak.new(digest_bits=256, data=digits.encode()).hexdigest()
    pairs = zip(digits, hashed, strict=False)
    return "0x" + "".join(digit.upper() if nibble >= "8" else digit for digit, nibble in pairs)


def _segwit(text: str) -> WalletAddress:
    prefix, version, program = bech32.decode_segwit(text)
    if prefix in _TEST_NETWORKS:
        raise AddressInvalid(AddressRule.NETWORK)
    if prefix != _MAIN_NETWORK:
        raise AddressInvalid(AddressRule.UNKNOWN_FORMAT)
    if version == 0:
        form = _VERSION_0[len(program)]
    else:
        form = WalletFormat.P2TR if (version, len(program)) == _P2TR else WalletFormat.SEGWIT_FUTURE
    return WalletAddress(normalized=text.lower(), chain=Chain.BTC, format=form)


def _tron_hex(text: str) -> WalletAddress:
    normalized = base58.encode_check(bytes.fromhex(text))
    return WalletAddress(normalized=normalized, chain=Chain.TRON, format=WalletFormat.TRON_HEX)


def _base58(text: str) -> WalletAddress:
    """Read the 25 bytes of Bitcoin and TRON, which have a checksum, or the 32 of Solana, which have none."""
    if len(text) not in _BASE58_CHARS:
        raise AddressInvalid(AddressRule.LENGTH)
    decoded = base58.decode(text)
    if len(decoded) == _SOL_BYTES:
        return WalletAddress(normalized=text, chain=Chain.SOL, format=WalletFormat.SOL_BASE58)
    if len(decoded) != _CHECKED_BYTES:
        raise AddressInvalid(AddressRule.LENGTH)
    version = base58.without_checksum(decoded)[0]
    if version in _TEST_VERSIONS:
        raise AddressInvalid(AddressRule.NETWORK)
    if version not in _VERSIONS:
        raise AddressInvalid(AddressRule.VERSION)
    chain, form = _VERSIONS[version]
    return WalletAddress(normalized=text, chain=chain, format=form)


def _other(text: str) -> WalletAddress:
    if len(text) not in _OTHER_CHARS:
        raise AddressInvalid(AddressRule.LENGTH)
    if not text.isprintable() or text != text.strip():
        raise AddressInvalid(AddressRule.CHARSET)
    return WalletAddress(normalized=text, chain=Chain.OTHER, format=WalletFormat.UNVERIFIED)
