"""Addresses of wallets, from any text to the one spelling, which reads as itself."""

from contextlib import suppress

from schemas.transactions import Chain
from schemas.wallets import AddressInvalid
from streams.wallets.formats import read, spellings
from streams.wallets.listed import listed_addresses

CHECKSUMMED = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
SEEDS = tuple(address.encode() for address in (*listed_addresses().values(), CHECKSUMMED))


def target(data: bytes) -> None:
    """Read the text on every chain, and without one."""
    text = data.decode(errors="replace")
    spellings(text)
    for chain in (None, *Chain):
        with suppress(AddressInvalid):
            found = read(text, chain)
            if read(found.normalized, found.chain) != found:
                raise AssertionError("a normalised address is another address")
