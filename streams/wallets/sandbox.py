"""The list of invented wallets that test keys are screened against, one of each chain (G132)."""

import hashlib
from types import MappingProxyType
from typing import Final

from schemas.transactions import Chain
from schemas.wallets import Listing
from streams.wallets import base58, bech32
from streams.wallets.formats import read
from streams.wallets.ports import ListedWallets

SANDBOX: Final = "sandbox"
VERSION: Final = "1"
_CATEGORY: Final = "sanctions"


def listed_addresses() -> dict[Chain, str]:
    """Return the listed address of each chain; valid, and nobody's: its key is a hash of its name."""
    hashed = {chain: hashlib.sha256(f"veristream sandbox {chain}".encode()).digest() for chain in Chain}
    return {
        Chain.BTC: bech32.encode_segwit("bc", 0, hashed[Chain.BTC][:20]),
        Chain.EVM: read(f"0x{hashed[Chain.EVM][:20].hex()}").normalized,
        Chain.TRON: base58.encode_check(b"\x41" + hashed[Chain.TRON][:20]),
        Chain.SOL: base58.encode(hashed[Chain.SOL]),
        Chain.OTHER: "sandbox-listed-wallet",
    }


def sandbox_wallets() -> ListedWallets:
    """Return the sandbox's wallets as a state of lists."""
    listings = {
        address: (
            Listing(
                list=SANDBOX,
                category=_CATEGORY,
                entity_id=f"sandbox-wallet-{chain.lower()}",
                entity_name=f"Invented owner of a {chain} wallet",
                sanctions=True,
            ),
        )
        for chain, address in listed_addresses().items()
    }
    return ListedWallets(MappingProxyType({SANDBOX: VERSION}), MappingProxyType(listings))
