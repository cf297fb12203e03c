"""Wallets: addresses of five kinds of chain, and the assessment of one (G41, G123, G124)."""

from enum import StrEnum
from typing import Final

from schemas.base import Frozen

ADDRESS_MAX_CHARS: Final = 1_000
"""Longest text that is looked at; an address of any chain is shorter, and says LENGTH."""


class Chain(StrEnum):
    """The kind of chain of a wallet."""

    BTC = "BTC"
    EVM = "EVM"
    TRON = "TRON"
    SOL = "SOL"
    OTHER = "OTHER"


class WalletFormat(StrEnum):
    """How an address is written."""

    P2PKH = "P2PKH"
    P2SH = "P2SH"
    P2WPKH = "P2WPKH"
    P2WSH = "P2WSH"
    P2TR = "P2TR"
    SEGWIT_FUTURE = "SEGWIT_FUTURE"
    """A witness version without a meaning yet."""
    EVM_HEX = "EVM_HEX"
    TRON_BASE58 = "TRON_BASE58"
    TRON_HEX = "TRON_HEX"
    SOL_BASE58 = "SOL_BASE58"
    UNVERIFIED = "UNVERIFIED"
    """Of another chain: taken as it is."""


class AddressRule(StrEnum):
    """The rule an address fails."""

    EMPTY = "EMPTY"
    LENGTH = "LENGTH"
    CHARSET = "CHARSET"
    MIXED_CASE = "MIXED_CASE"
    CHECKSUM = "CHECKSUM"
    VERSION = "VERSION"
    WITNESS_VERSION = "WITNESS_VERSION"
    WITNESS_LENGTH = "WITNESS_LENGTH"
    PADDING = "PADDING"
    NETWORK = "NETWORK"
    CHAIN_MISMATCH = "CHAIN_MISMATCH"
    UNKNOWN_FORMAT = "UNKNOWN_FORMAT"


class WalletAddress(Frozen):
    """An address that keeps the rules of its chain."""

    normalized: str
    """The one spelling of the wallet; what lists are asked for."""
    chain: Chain
    format: WalletFormat
