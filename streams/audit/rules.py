"""Filter, serialise, link and verify audit rows. Pure.

The chain is that of G21 and S57, the filter that of G32.
"""

import hashlib
import hmac
import json
from collections.abc import Sequence
from typing import Final

from schemas.audit import AuditEvent, AuditFilter, ChainLink
from schemas.enums import TextEnum
from schemas.ids import TenantId
from streams.ports.audit import ChainKey, ChainKeys, SealedRow
from streams.ports.errors import Damaged

FIRST_PREVIOUS: Final = "0" * 64
"""What the first row follows."""

CHAIN: Final = "chain"
"""The entry a reader adds to a row's context; it is not part of the row."""


class ChainFault(TextEnum):
    """The fault of a place in the chain."""

    EDITED = "edited"
    """The row or its link was altered."""
    REMOVED = "removed"
    """The row that stood here is gone."""
    REORDERED = "reordered"
    """The row is genuine and belongs elsewhere in this chain."""
    FOREIGN = "foreign"
    """The row was never sealed into this chain."""
    HEAD = "head"
    """The head is not one that was sealed, or not the one of these rows."""
    CUT = "cut"
    """The chain ends before a head that a checkpoint, or the caller, names: rows behind its end are gone."""
    REPLACED = "replaced"
    """The chain holds, but not with the head that a checkpoint, or the caller, names: rows were replaced."""


def is_chosen(event: AuditEvent, chosen: AuditFilter) -> bool:
    """Return whether the filter lets the row through."""
    asked = chosen.model_dump(exclude_none=True, exclude={"action", "since", "until"})
    late = chosen.since is None or event.created_at >= chosen.since
    early = chosen.until is None or event.created_at < chosen.until
    named = chosen.action is None or names(chosen.action, event.action)
    return named and late and early and all(getattr(event, name) == value for name, value in asked.items())


def names(asked: str, action: str) -> bool:
    """Return whether a filter names the action: as it is, or by its resource with a trailing dot."""
    return action.startswith(asked) if asked.endswith(".") else action == asked


def chain_key(key: ChainKey, tenant_id: TenantId) -> bytes:
    """Return the key of one tenant's chain, so that a row does not verify in another's."""
    return hmac.digest(key.secret, b"chain\0" + tenant_id.encode(), hashlib.sha256)


def canonical(event: AuditEvent) -> bytes:
    """Write the row in its one form: sorted, compact JSON in UTF-8 (after RFC 8785), without its link."""
    row = event.model_dump(mode="json", exclude_none=True)
    row["context"].pop(CHAIN, None)
    return json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def link(previous: ChainLink | None, event: AuditEvent, key: bytes) -> ChainLink:
    """Return the link that joins the row to the chain of `key` (see `chain_key`)."""
    return link_canonical(previous, canonical(event), key)


def link_canonical(previous: ChainLink | None, row: bytes, key: bytes) -> ChainLink:
    """Return the link that joins a row in its canonical form to the chain of `key`."""
    position = 1 if previous is None else previous.position + 1
    before = FIRST_PREVIOUS if previous is None else previous.hash
    return ChainLink(position=position, prev_hash=before, hash=_hash(position, before, row, key))


def seal_head(head: ChainLink, key: ChainKey, tenant_id: TenantId) -> str:
    """Return the seal beside the head, by which a chain cut short is noticed; it names the key's version."""
    return f"{key.version}:{_head_mac(head, key, tenant_id)}"


def is_head(head: ChainLink, seal: str, keys: ChainKeys, tenant_id: TenantId) -> bool:
    """Return whether the head is one that was sealed, under whichever version it names.

    Raises:
        KeyUnavailable: This process was given no version.
    """
    version, _, mac = seal.rpartition(":")
    key = keys.named(version)
    return key is not None and hmac.compare_digest(_head_mac(head, key, tenant_id).encode(), mac.encode())


def check_head(head: ChainLink, seal: str, keys: ChainKeys, tenant_id: TenantId) -> None:
    """Raise `Damaged` unless the head is one that was sealed; see `is_head`."""
    if is_head(head, seal, keys, tenant_id):
        return
    version, _, _ = seal.rpartition(":")
    if keys.named(version) is None:
        raise Damaged(f"the head of the audit chain names root key {version}, of which there is no key here")
    raise Damaged("the head of the audit chain was not sealed here")


def _head_mac(head: ChainLink, key: ChainKey, tenant_id: TenantId) -> str:
    text = f"head\0{head.position}\0{head.prev_hash}\0{head.hash}"
    return hmac.new(chain_key(key, tenant_id), text.encode(), hashlib.sha256).hexdigest()


def check(previous: ChainLink | None, row: SealedRow, key: bytes) -> ChainFault | None:
    """Return what is wrong with the row as the one after `previous`, None when nothing is.

    A fault that only the rows behind it show (see `classify`) counts as edited.
    """
    expected = 1 if previous is None else previous.position + 1
    if row.event is None or row.link.position > expected:
        return ChainFault.REMOVED
    if _same(row.link, link(previous, row.event, key)):
        return None
    return ChainFault.EDITED


def classify(
    previous: ChainLink | None,
    row: SealedRow,
    behind: Sequence[SealedRow],
    head: ChainLink | None,
    keys: Sequence[bytes],
) -> ChainFault:
    """Return what is wrong with a row that `check` refuses under each of the keys that its place allows.

    It is seen with the rows behind it and the head.
    """
    if row.event is None or check(previous, row, keys[0]) is ChainFault.REMOVED:
        return ChainFault.REMOVED
    if any(_belongs_at(other.link, row.link, row.event, key) for other in behind for key in keys):
        return ChainFault.REORDERED
    followed = {other.link.prev_hash for other in behind} | ({head.hash} if head else set())
    genuine = {link(previous, row.event, key).hash for key in keys}
    if not followed or followed & {row.link.hash, *genuine}:
        return ChainFault.EDITED
    return ChainFault.FOREIGN


def _belongs_at(other: ChainLink, own: ChainLink, event: AuditEvent, key: bytes) -> bool:
    """Return whether the row was sealed at the place of `other`, with that link or its own."""
    row = canonical(event)
    sealed_there = _hash(other.position, other.prev_hash, row, key) == other.hash
    return sealed_there or _hash(other.position, own.prev_hash, row, key) == own.hash


def _hash(position: int, before: str, row: bytes, key: bytes) -> str:
    text = f"row\0{position}\0{before}\0".encode() + row
    return hmac.digest(key, text, "sha256").hex()


def _same(found: ChainLink, genuine: ChainLink) -> bool:
    return found.position == genuine.position and hmac.compare_digest(
        f"{found.prev_hash}{found.hash}".encode(), f"{genuine.prev_hash}{genuine.hash}".encode()
    )
