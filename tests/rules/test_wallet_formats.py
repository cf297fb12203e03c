"""Addresses against the vectors of BIP-173, BIP-350 and EIP-55, and the rules of G123."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.transactions import Chain
from schemas.wallets import AddressInvalid, AddressRule, WalletFormat
from streams.wallets import base58, bech32
from streams.wallets.bech32 import Encoding
from streams.wallets.formats import read, spellings

VALID: Final = (
    (Encoding.BECH32, "A12UEL5L"),
    (Encoding.BECH32, "a12uel5l"),
    (
        Encoding.BECH32,
        "an83characterlonghumanreadablepartthatcontainsthenumber1andtheexcludedcharactersbio1tt5tgs",
    ),
    (Encoding.BECH32, "abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw"),
    (Encoding.BECH32, "11" + "q" * 82 + "c8247j"),
    (Encoding.BECH32, "split1checkupstagehandshakeupstreamerranterredcaperred2y9e3w"),
    (Encoding.BECH32, "?1ezyfcl"),
    (Encoding.BECH32M, "A1LQFN3A"),
    (Encoding.BECH32M, "a1lqfn3a"),
    (
        Encoding.BECH32M,
        "an83characterlonghumanreadablepartthatcontainsthetheexcludedcharactersbioandnumber11sg7hg6",
    ),
    (Encoding.BECH32M, "abcdef1l7aum6echk45nj3s0wdvt2fg8x9yrzpqzd3ryx"),
    (Encoding.BECH32M, "11" + "l" * 82 + "ludsr8"),
    (Encoding.BECH32M, "split1checkupstagehandshakeupstreamerranterredcaperredlc445v"),
    (Encoding.BECH32M, "?1v759aa"),
)
INVALID: Final = (
    (" 1nwldj5", AddressRule.CHARSET),
    ("\x7f1axkwrx", AddressRule.CHARSET),
    ("\x801eym55h", AddressRule.CHARSET),
    (
        "an84characterslonghumanreadablepartthatcontainsthenumber1andtheexcludedcharactersbio1569pvx",
        AddressRule.LENGTH,
    ),
    ("pzry9x0s0muk", AddressRule.LENGTH),
    ("1pzry9x0s0muk", AddressRule.LENGTH),
    ("x1b4n0q5v", AddressRule.CHARSET),
    ("li1dgmt3", AddressRule.LENGTH),
    ("de1lg7wt\xff", AddressRule.CHARSET),
    ("A1G7SGD8", AddressRule.CHECKSUM),
    ("10a06t8", AddressRule.LENGTH),
    ("1qzzfhee", AddressRule.LENGTH),
    ("lt1igcx5c0", AddressRule.CHARSET),
    ("in1muywd", AddressRule.LENGTH),
    ("mm1crxm3i", AddressRule.CHARSET),
    ("au1s5cgom", AddressRule.CHARSET),
    ("M1VUXWEZ", AddressRule.CHECKSUM),
    ("16plkw9", AddressRule.LENGTH),
    ("1p2gdwpf", AddressRule.LENGTH),
)
SEGWIT: Final = (
    ("BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4", "0014751e76e8199196d454941c45d1b3a323f1433bd6"),
    (
        "tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7",
        "00201863143c14c5166804bd19203356da136c985678cd4d27a1b8c6329604903262",
    ),
    (
        "bc1pw508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7kt5nd6y",
        "5128751e76e8199196d454941c45d1b3a323f1433bd6751e76e8199196d454941c45d1b3a323f1433bd6",
    ),
    ("BC1SW50QGDZ25J", "6002751e"),
    ("bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs", "5210751e76e8199196d454941c45d1b3a323"),
    (
        "tb1qqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesrxh6hy",
        "0020000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433",
    ),
    (
        "tb1pqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesf3hn0c",
        "5120000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433",
    ),
    (
        "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
        "512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
    ),
)
NO_SEGWIT: Final = (
    ("bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd", AddressRule.CHECKSUM),
    ("tb1z0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqglt7rf", AddressRule.CHECKSUM),
    ("BC1S0XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ54WELL", AddressRule.CHECKSUM),
    ("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kemeawh", AddressRule.CHECKSUM),
    ("tb1q0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq24jc47", AddressRule.CHECKSUM),
    ("bc1p38j9r5y49hruaue7wxjce0updqjuyyx0kh56v8s25huc6995vvpql3jow4", AddressRule.CHARSET),
    ("BC130XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ7ZWS8R", AddressRule.WITNESS_VERSION),
    ("bc1pw5dgrnzv", AddressRule.WITNESS_LENGTH),
    (
        "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7v8n0nx0muaewav253zgeav",
        AddressRule.WITNESS_LENGTH,
    ),
    ("BC1QR508D6QEJXTDG4Y5R3ZARVARYV98GJ9P", AddressRule.WITNESS_LENGTH),
    ("tb1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq47Zagq", AddressRule.MIXED_CASE),
    ("bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7v07qwwzcrf", AddressRule.PADDING),
    ("tb1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vpggkg4j", AddressRule.PADDING),
    ("bc1gmk9yu", AddressRule.WITNESS_LENGTH),
)
EIP_55: Final = (
    "0x52908400098527886E0F7030069857D2E4169EE7",
    "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
    "0xde709f2102306220921060314715629080e2fb77",
    "0x27b1fdb04752bbc536007a920d24acb045561c26",
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
)
EVM: Final = EIP_55[4]
GENESIS: Final = "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"
TRON: Final = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"
SOL: Final = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
TAPROOT: Final = SEGWIT[7][0]

HASHES: Final = st.binary(min_size=20, max_size=20)
ADDRESSES: Final = st.one_of(
    st.builds(
        lambda version, hashed: base58.encode_check(bytes((version,)) + hashed),
        st.sampled_from([0, 5, 0x41]),
        HASHES,
    ),
    st.builds(
        lambda version, program: bech32.encode_segwit("bc", version, program),
        st.integers(1, 16),
        st.binary(min_size=2, max_size=40),
    ),
    st.builds(lambda program: bech32.encode_segwit("bc", 0, program), HASHES),
    st.builds(lambda program: bech32.encode_segwit("bc", 0, program).upper(), HASHES),
    st.builds(lambda hashed: f"0x{hashed.hex()}", HASHES),
    st.builds(lambda hashed: f"41{hashed.hex()}", HASHES),
    st.builds(base58.encode, st.binary(min_size=32, max_size=32)),
)


def rule_of(text: str, chain: Chain | None = None) -> AddressRule | None:
    """Return the rule that the text fails."""
    try:
        read(text, chain)
    except AddressInvalid as invalid:
        return invalid.rule
    return None


@pytest.mark.parametrize(("encoding", "text"), VALID)
def test_the_valid_strings_of_bip_173_and_350_have_their_encoding(encoding: Encoding, text: str) -> None:
    place = text.rfind("1") + 1
    wrong = text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]

    assert bech32.decode(text)[2] is encoding
    with pytest.raises(AddressInvalid):
        bech32.decode(wrong)


@pytest.mark.parametrize(("text", "rule"), INVALID)
def test_the_invalid_strings_of_bip_173_and_350_are_refused(text: str, rule: AddressRule) -> None:
    with pytest.raises(AddressInvalid) as refused:
        bech32.decode(text)

    assert refused.value.rule is rule


@pytest.mark.parametrize(("text", "script"), SEGWIT)
def test_the_valid_addresses_of_bip_350_have_their_program(text: str, script: str) -> None:
    prefix, version, program = bech32.decode_segwit(text)

    assert bytes([version + 0x50 if version else 0, len(program)]).hex() + program.hex() == script
    assert bech32.encode_segwit(prefix, version, program) == text.lower()
    assert rule_of(text) is (None if prefix == "bc" else AddressRule.NETWORK)


@pytest.mark.parametrize(("text", "rule"), NO_SEGWIT)
def test_the_invalid_addresses_of_bip_350_fail_a_rule(text: str, rule: AddressRule) -> None:
    assert rule_of(text) is rule


@pytest.mark.parametrize("text", EIP_55)
def test_the_addresses_of_eip_55_are_their_own_spelling(text: str) -> None:
    assert {read(one).normalized for one in (text, "0x" + text[2:].lower(), "0x" + text[2:].upper())} == {
        text
    }


@pytest.mark.parametrize(
    ("text", "chain", "form"),
    [
        (GENESIS, Chain.BTC, WalletFormat.P2PKH),
        ("3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy", Chain.BTC, WalletFormat.P2SH),
        (SEGWIT[0][0], Chain.BTC, WalletFormat.P2WPKH),
        ("bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3", Chain.BTC, WalletFormat.P2WSH),
        (TAPROOT, Chain.BTC, WalletFormat.P2TR),
        (SEGWIT[3][0], Chain.BTC, WalletFormat.SEGWIT_FUTURE),
        (EVM, Chain.EVM, WalletFormat.EVM_HEX),
        (TRON, Chain.TRON, WalletFormat.TRON_BASE58),
        ("41a614f803b6fd780986a42c78ec9c7f77e6ded13c", Chain.TRON, WalletFormat.TRON_HEX),
        (SOL, Chain.SOL, WalletFormat.SOL_BASE58),
        ("1" * 32, Chain.SOL, WalletFormat.SOL_BASE58),
    ],
)
def test_an_address_says_its_chain_and_format(text: str, chain: Chain, form: WalletFormat) -> None:
    found = read(text)

    assert (found.chain, found.format) == (chain, form)
    assert read(text, chain) == found
    assert read(text, Chain.OTHER).format is WalletFormat.UNVERIFIED
    assert {rule_of(text, other) for other in Chain if other not in {chain, Chain.OTHER}} <= {
        AddressRule.CHAIN_MISMATCH,
        AddressRule.UNKNOWN_FORMAT,
    }


def test_the_two_forms_of_tron_are_one_wallet() -> None:
    assert read("41a614f803b6fd780986a42c78ec9c7f77e6ded13c").normalized == TRON


@pytest.mark.parametrize(
    ("text", "chain", "rule"),
    [
        ("", None, AddressRule.EMPTY),
        ("", Chain.OTHER, AddressRule.EMPTY),
        (f" {GENESIS}", None, AddressRule.CHARSET),
        (f"{EVM}\n", None, AddressRule.CHARSET),
        (f"{EVM[:-1]}é", None, AddressRule.CHARSET),
        (f"{EVM[:-1]}g", None, AddressRule.CHARSET),
        (EVM[:-1], None, AddressRule.LENGTH),
        (EVM[:-1] + EVM[-1].swapcase(), None, AddressRule.CHECKSUM),
        (EVM[2:], Chain.EVM, AddressRule.UNKNOWN_FORMAT),
        (EVM[2:], None, AddressRule.UNKNOWN_FORMAT),
        (GENESIS[:-1] + "b", None, AddressRule.CHECKSUM),
        (GENESIS[:-1], None, AddressRule.CHECKSUM),
        (GENESIS[:-4], None, AddressRule.LENGTH),
        (GENESIS[:-1] + "0", Chain.BTC, AddressRule.CHARSET),
        ("mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn", None, AddressRule.NETWORK),
        ("LVg2kJoFNg45Nbpy53h7Fe1wKyeXVRhMH9", None, AddressRule.VERSION),
        (TRON, Chain.BTC, AddressRule.CHAIN_MISMATCH),
        (SOL[:-2], Chain.SOL, AddressRule.LENGTH),
        ("ltc1qw508d6qejxtdg4y5r3zarvary0c5xw7kgmn4n9", None, AddressRule.UNKNOWN_FORMAT),
        ("hello", None, AddressRule.UNKNOWN_FORMAT),
        ("short", Chain.OTHER, AddressRule.LENGTH),
        ("x" * 129, Chain.OTHER, AddressRule.LENGTH),
        ("with\x00zero", Chain.OTHER, AddressRule.CHARSET),
        ("1" * 1_000, Chain.BTC, AddressRule.LENGTH),
    ],
)
def test_an_address_that_is_none_fails_one_rule(text: str, chain: Chain | None, rule: AddressRule) -> None:
    assert rule_of(text, chain) is rule


def test_an_address_of_tron_may_begin_like_one_of_bech32() -> None:
    address = "TB115BhpCAFbjPUgniZ36TZYxNB67fPKzr"

    assert (read(address).chain, read(address).normalized) == (Chain.TRON, address)
    assert rule_of("tb1" + "Q" * 39) is AddressRule.MIXED_CASE


@given(text=ADDRESSES)
def test_normalising_twice_changes_nothing(text: str) -> None:
    once = read(text)

    assert read(once.normalized).normalized == once.normalized
    assert read(once.normalized, once.chain).chain is once.chain
    assert once.normalized in spellings(text)


@given(
    text=st.text(max_size=150) | ADDRESSES.map(lambda one: one[:-1]), chain=st.none() | st.sampled_from(Chain)
)
def test_any_text_is_an_address_or_fails_a_rule(text: str, chain: Chain | None) -> None:
    assert rule_of(text, chain) in (None, *AddressRule)
