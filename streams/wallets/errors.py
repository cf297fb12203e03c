"""Say which rule of G123 an address fails."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from schemas.wallets import AddressRule

WORDS_OF: Final[Mapping[AddressRule, str]] = MappingProxyType(
    {
        AddressRule.EMPTY: "The address is empty.",
        AddressRule.LENGTH: "No address of the chain has this length.",
        AddressRule.CHARSET: "A character of it stands in no address of the chain; space around it counts.",
        AddressRule.MIXED_CASE: "The address mixes lower and upper case, which BIP-173 does not allow.",
        AddressRule.CHECKSUM: "The checksum does not fit: a character is wrong.",
        AddressRule.VERSION: "Its version byte is of no kind of address that is known.",
        AddressRule.WITNESS_VERSION: "Its witness version is above 16.",
        AddressRule.WITNESS_LENGTH: "Its witness program has a length that its version does not allow.",
        AddressRule.PADDING: "The bits after its witness program are not four zeros at most.",
        AddressRule.NETWORK: "It is an address of a test network.",
        AddressRule.CHAIN_MISMATCH: "It is an address of another chain than the one given.",
        AddressRule.UNKNOWN_FORMAT: "It has the form of no chain that is known.",
    }
)


class AddressInvalid(ValueError):
    """The address fails the rule."""

    def __init__(self, rule: AddressRule) -> None:
        super().__init__(WORDS_OF[rule])
        self.rule = rule
