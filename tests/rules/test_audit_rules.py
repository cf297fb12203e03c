"""How a row is written down and linked, on paper, and the Merkle tree of a list of entries."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from schemas.audit import AuditAction, AuditEvent, ChainLink
from schemas.enums import ActorType
from schemas.ids import AuditEventId, derive_id
from streams.audit.checkpoints import inclusion_path, is_included, tree_hash
from streams.audit.rules import (
    FIRST_PREVIOUS,
    ChainFault,
    canonical,
    chain_key,
    check,
    check_head,
    classify,
    is_head,
    link,
    seal_head,
)
from streams.ports.audit import ChainKey, ChainKeys, SealedRow
from streams.ports.errors import Damaged
from tests.builders import ACME, GLOBEX, NOW, build_audit_event

VERSION = ChainKey("b" * 16, bytes(32))
FIRST = ChainKey("a" * 16, b"a" * 32)
KEYS = ChainKeys((FIRST, VERSION))
KEY = chain_key(VERSION, ACME)
ENTRIES = [
    bytes.fromhex(one)
    for one in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
    )
]  # fmt: skip
"""The leaves of the Certificate Transparency reference tests."""

ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
"""The root of the first 0 to 8 of them."""


def row(n: int) -> AuditEvent:
    """A row of its own."""
    return build_audit_event(event_id=AuditEventId(derive_id("aud", str(n))), detail=f"Row {n}.")


def chain(length: int) -> list[SealedRow]:
    """Rows sealed one behind the other."""
    rows: list[SealedRow] = []
    for n in range(length):
        previous = rows[-1].link if rows else None
        rows.append(SealedRow(row(n), link(previous, row(n), KEY)))
    return rows


def first_fault(rows: Sequence[SealedRow]) -> tuple[int, ChainFault] | None:
    """The first bad place and what is wrong there."""
    previous: ChainLink | None = None
    for n, one in enumerate(rows):
        if check(previous, one, KEY) is not None:
            return n, classify(previous, one, rows[n + 1 :], rows[-1].link, [KEY])
        previous = one.link
    return None


def test_the_canonical_row_is_sorted_compact_json_in_utf_8() -> None:
    event = build_audit_event(context={"z": 1, "a": {"y": None, "b": "é"}}, livemode=False)

    text = canonical(event).decode()

    assert text.startswith('{"action":"verification.evaluated","actor_id":"key_')
    assert '"context":{"a":{"b":"é"' in text
    assert '"created_at":"2026-11-21T10:30:15.123Z"' in text


def test_the_link_a_reader_adds_is_not_part_of_the_row() -> None:
    event = build_audit_event(context={"request_id": "r", "chain": {"position": 1}})

    assert canonical(event) == canonical(build_audit_event(context={"request_id": "r"}))


def test_the_order_of_context_entries_does_not_matter() -> None:
    there, back = {"a": 1, "b": 2}, {"b": 2, "a": 1}

    assert canonical(build_audit_event(context=there)) == canonical(build_audit_event(context=back))


@pytest.mark.parametrize(
    "changes",
    [
        {"event_id": AuditEventId(derive_id("aud", "other"))},
        {"action": AuditAction.CASE_OPENED},
        {"actor_type": ActorType.SYSTEM},
        {"actor_id": None},
        {"subject_id": "customer-18"},
        {"correlation_id": "req-2"},
        {"decision_id": "dec_1"},
        {"context": {}},
        {"detail": "Something else."},
        {"created_at": NOW + timedelta(milliseconds=1)},
        {"livemode": False},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_every_field_is_part_of_the_row(changes: dict[str, object]) -> None:
    assert canonical(build_audit_event(**changes)) != canonical(build_audit_event())


def test_every_field_of_a_row_is_tried_above() -> None:
    assert len(AuditEvent.model_fields) == 11


def test_the_first_link_follows_zeros() -> None:
    first = link(None, row(0), KEY)

    assert (first.position, first.prev_hash) == (1, FIRST_PREVIOUS)


def test_a_link_follows_the_one_before_it() -> None:
    first = link(None, row(0), KEY)

    second = link(first, row(1), KEY)

    assert (second.position, second.prev_hash) == (2, first.hash)


def test_a_link_needs_the_key() -> None:
    assert link(None, row(0), KEY).hash != link(None, row(0), chain_key(VERSION, GLOBEX)).hash


def test_an_honest_chain_has_no_fault() -> None:
    assert first_fault(chain(6)) is None


@pytest.mark.parametrize("place", [0, 2, 5])
def test_an_edited_row_is_named(place: int) -> None:
    rows = chain(6)
    rows[place] = SealedRow(build_audit_event(detail="Nothing happened."), rows[place].link)

    assert first_fault(rows) == (place, ChainFault.EDITED)


@pytest.mark.parametrize("changes", [{"hash": "0" * 64}, {"prev_hash": "1" * 64}, {"position": 1}])
def test_an_edited_link_is_named(changes: dict[str, object]) -> None:
    rows = chain(6)
    rows[2] = SealedRow(rows[2].event, rows[2].link.model_copy(update=changes))

    assert first_fault(rows) == (2, ChainFault.EDITED)


@pytest.mark.parametrize("place", [0, 3])
def test_a_removed_row_is_named_by_its_place(place: int) -> None:
    rows = chain(6)
    del rows[place]

    assert first_fault(rows) == (place, ChainFault.REMOVED)


def test_a_row_that_is_gone_from_its_link_is_removed() -> None:
    rows = chain(3)
    rows[1] = SealedRow(None, rows[1].link)

    assert first_fault(rows) == (1, ChainFault.REMOVED)


def test_a_removed_row_is_noticed_though_the_rest_was_counted_anew() -> None:
    rows = chain(6)
    del rows[2]
    moved = [SealedRow(r.event, r.link.model_copy(update={"position": n + 1})) for n, r in enumerate(rows)]

    assert first_fault(moved) == (2, ChainFault.REORDERED)


def test_rows_that_changed_places_are_reordered() -> None:
    rows = chain(6)
    rows[1], rows[4] = SealedRow(rows[4].event, rows[1].link), SealedRow(rows[1].event, rows[4].link)

    assert first_fault(rows) == (1, ChainFault.REORDERED)


def test_rows_that_changed_places_with_their_links_are_reordered() -> None:
    rows = chain(6)
    positions = [rows[4].link, rows[1].link]
    rows[1], rows[4] = (
        SealedRow(rows[4].event, rows[4].link.model_copy(update={"position": positions[1].position})),
        SealedRow(rows[1].event, rows[1].link.model_copy(update={"position": positions[0].position})),
    )

    assert first_fault(rows) == (1, ChainFault.REORDERED)


def test_a_forged_row_between_two_is_foreign() -> None:
    rows = chain(4)
    forged = ChainLink(position=3, prev_hash=rows[1].link.hash, hash="ab" * 32)
    behind = [
        SealedRow(r.event, r.link.model_copy(update={"position": r.link.position + 1})) for r in rows[2:]
    ]

    assert first_fault([*rows[:2], SealedRow(row(99), forged), *behind]) == (2, ChainFault.FOREIGN)


def test_a_row_of_another_chain_is_foreign() -> None:
    rows = chain(3)
    other = link(rows[0].link, row(99), chain_key(VERSION, GLOBEX))

    assert first_fault([rows[0], SealedRow(row(99), other), rows[2]]) == (1, ChainFault.FOREIGN)


def test_a_sealed_head_is_known() -> None:
    head = link(None, row(0), KEY)

    assert is_head(head, seal_head(head, VERSION, ACME), KEYS, ACME)


def test_the_seal_of_a_head_names_the_version_of_the_key() -> None:
    head = link(None, row(0), KEY)
    mac = seal_head(head, VERSION, ACME).removeprefix(f"{VERSION.version}:")

    assert not is_head(head, f"{FIRST.version}:{mac}", KEYS, ACME)
    with pytest.raises(Damaged, match=f"names root key {VERSION.version}, of which there is no key"):
        check_head(head, f"{VERSION.version}:{mac}", ChainKeys((FIRST,)), ACME)


def test_a_head_sealed_before_there_were_versions_is_of_the_first() -> None:
    head = link(None, row(0), chain_key(FIRST, ACME))
    mac = seal_head(head, FIRST, ACME).removeprefix(f"{FIRST.version}:")

    assert is_head(head, mac, KEYS, ACME)
    assert not is_head(head, seal_head(head, VERSION, ACME).removeprefix(f"{VERSION.version}:"), KEYS, ACME)


@pytest.mark.parametrize("changes", [{"position": 2}, {"hash": "0" * 64}, {"prev_hash": "1" * 64}])
def test_a_head_that_was_altered_is_not_known(changes: dict[str, object]) -> None:
    head = link(None, row(0), KEY)

    assert not is_head(head.model_copy(update=changes), seal_head(head, VERSION, ACME), KEYS, ACME)


def test_a_head_of_another_tenant_is_not_known() -> None:
    head = link(None, row(0), KEY)

    assert not is_head(head, seal_head(head, VERSION, GLOBEX), KEYS, ACME)


@pytest.mark.parametrize("size", range(len(ROOTS)))
def test_s57_the_root_is_that_of_the_reference(size: int) -> None:
    assert tree_hash(ENTRIES[:size]).hex() == ROOTS[size]


@pytest.mark.parametrize("size", range(1, len(ROOTS)))
def test_s57_every_entry_is_proved_and_no_other_is(size: int) -> None:
    entries, root = ENTRIES[:size], bytes.fromhex(ROOTS[size])

    for index, entry in enumerate(entries):
        path = inclusion_path(entries, index)
        assert is_included(entry, index, size, path, root)
        assert not is_included(entry + b"x", index, size, path, root)
        assert not is_included(entry, index, size, [*path, root], root)
        assert not is_included(entry, index, size, path[:-1], root) or size == 1
        assert not is_included(entry, size, size, path, root)


def test_s57_the_path_of_the_reference() -> None:
    """The proof of the first of eight leaves, from the reference tests."""
    path = [step.hex() for step in inclusion_path(ENTRIES, 0)]

    assert path == [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ]
