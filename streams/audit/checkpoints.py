"""Build the next checkpoint of the audit log, and verify the stored ones. Pure."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from pydantic import ValidationError

from schemas.checkpoints import NO_CHECKPOINT, ChainHead, Checkpoint
from schemas.ids import TenantId

HEADS_AT_ONCE: Final = 2_000
"""Heads in one checkpoint, some 280 kB; the log takes records of 1 MB."""

_END: Final = b"}"
"""A line that ends otherwise is an append that was cut short; if more was there, its number is missing."""

IDLE: Final = timedelta(hours=1)
"""A checkpoint is written this long after the one before even when no chain grew."""


class SigningKey(Protocol):
    """Sign checkpoints, and verify the signatures."""

    @property
    def public(self) -> str:
        """The public key, hexadecimal."""
        ...

    def sign(self, message: bytes) -> str:
        """Return the signature, hexadecimal; the same one for the same message."""
        ...

    def is_signed(self, message: bytes, signature: str) -> bool:
        """Return whether this key signed the message."""
        ...


@dataclass(frozen=True, slots=True)
class Ledger:
    """The state after a checkpoint: its number, and the head of every chain."""

    number: int = 0
    digest: str = NO_CHECKPOINT
    base: int = 0
    """0: there is none yet."""
    base_month: tuple[int, int] = (0, 0)
    """Year and month of the base: each month begins with all heads, so that its file stands alone."""
    at: datetime | None = None
    heads: Mapping[TenantId, ChainHead] = field(default_factory=dict)

    def changed(self, heads: Iterable[ChainHead]) -> list[ChainHead]:
        """Return the heads that moved on; one that went back stays what it was (see `went_back`)."""
        return [head for head in heads if head.position > self._position(head.tenant_id)]

    def went_back(self, heads: Iterable[ChainHead]) -> list[ChainHead]:
        """Return the heads that lie before the known ones, or say something else of the same place."""
        return [
            head
            for head in heads
            if (known := self.heads.get(head.tenant_id)) is not None
            and head != known
            and head.position <= known.position
        ]

    def _position(self, tenant_id: TenantId) -> int:
        known = self.heads.get(tenant_id)
        return 0 if known is None else known.position


def next_checkpoints(
    ledger: Ledger, heads: Sequence[ChainHead], now: datetime, key: SigningKey
) -> tuple[list[Checkpoint], Ledger]:
    """Return the checkpoints that name what changed, none when nothing is due, and what is known then."""
    changed, month = ledger.changed(heads), (now.year, now.month)
    whole = month != ledger.base_month
    if not changed and not whole and ledger.at is not None and now - ledger.at < IDLE:
        return [], ledger
    if whole:
        changed = list({**ledger.heads, **{head.tenant_id: head for head in changed}}.values())
    starts = range(0, max(1, len(changed)), HEADS_AT_ONCE)
    parts = [changed[start : start + HEADS_AT_ONCE] for start in starts]
    first, made = ledger.number + 1, list[Checkpoint]()
    for part in parts:
        is_last = len(made) + 1 == len(parts)
        base = first if ledger.base == 0 or (whole and is_last) else ledger.base
        known = {**ledger.heads, **{head.tenant_id: head for head in part}}
        made.append(_signed(ledger, base, known, part, now, key))
        ledger = Ledger(
            number=ledger.number + 1,
            digest=made[-1].digest,
            base=base,
            base_month=month if whole and is_last else ledger.base_month,
            at=now,
            heads=known,
        )
    return made, ledger


def _signed(
    ledger: Ledger,
    base: int,
    known: Mapping[TenantId, ChainHead],
    named: Sequence[ChainHead],
    now: datetime,
    key: SigningKey,
) -> Checkpoint:
    draft = Checkpoint(
        number=ledger.number + 1,
        at=now,
        base=base,
        chains=len(known),
        root=root_of(known),
        heads=tuple(sorted(named, key=lambda head: head.tenant_id)),
        previous=ledger.digest,
        key=key.public,
    )
    return draft.model_copy(update={"signature": key.sign(draft.signed_bytes)})


def root_of(heads: Mapping[TenantId, ChainHead]) -> str:
    """Return the Merkle tree hash over the heads, sorted by tenant, hexadecimal."""
    return tree_hash([str(heads[tenant_id]).encode() for tenant_id in sorted(heads)]).hex()


@dataclass(frozen=True, slots=True)
class History:
    """The authentic checkpoints of one or more copies, and the problems of the copies."""

    checkpoints: Sequence[Checkpoint] = ()
    """By number, each once."""
    faults: Sequence[str] = ()
    """One sentence each: lines that are no checkpoint or badly signed, numbers that are missing."""

    @property
    def newest(self) -> Checkpoint | None:
        """The last checkpoint."""
        return self.checkpoints[-1] if self.checkpoints else None

    def ledger(self) -> Ledger:
        """Return what a writer must know to go on behind the newest."""
        newest = self.newest
        if newest is None:
            return Ledger()
        path = self._path(newest)
        heads = {head.tenant_id: head for checkpoint in path for head in checkpoint.heads}
        month = (path[0].at.year, path[0].at.month) if path[0].number == newest.base else (0, 0)
        return Ledger(newest.number, newest.digest, newest.base, month, newest.at, heads)

    def expected(self) -> dict[TenantId, dict[int, set[str]]]:
        """Return every hash that a checkpoint names, by tenant and position."""
        found: dict[TenantId, dict[int, set[str]]] = {}
        for head in (head for checkpoint in self.checkpoints for head in checkpoint.heads):
            found.setdefault(head.tenant_id, {}).setdefault(head.position, set()).add(head.hash)
        return found

    def _path(self, newest: Checkpoint) -> list[Checkpoint]:
        """Return the checkpoints from the base of the newest up to it, as far as they are linked."""
        by_digest = {checkpoint.digest: checkpoint for checkpoint in self.checkpoints}
        path = [newest]
        while path[-1].number > newest.base and path[-1].previous in by_digest:
            path.append(by_digest[path[-1].previous])
        return path[::-1]

    def judged(self) -> "History":
        """Return the history with the problems of the whole: gaps, and a root that differs."""
        digests = {checkpoint.digest for checkpoint in self.checkpoints}
        gaps = [
            f"checkpoint {checkpoint.number - 1}, which {checkpoint.number} follows, is missing"
            for checkpoint in self.checkpoints
            if checkpoint.number > self.checkpoints[0].number and checkpoint.previous not in digests
        ]
        newest = self.newest
        if newest is not None and not gaps:
            if self.checkpoints[0].number > newest.base:
                gaps = [f"checkpoints {newest.base} to {self.checkpoints[0].number - 1} are missing"]
            elif root_of(self.ledger().heads) != newest.root:
                gaps = [f"the heads named up to checkpoint {newest.number} do not have its Merkle root"]
        return replace(self, faults=(*self.faults, *gaps))


def read_history(copies: Mapping[str, Iterable[bytes]], key: SigningKey) -> History:
    """Return the genuine checkpoints among the lines of the copies.

    A signature is checked only where no genuine later checkpoint names the digest: the digest vouches for
    all that lies before.
    """
    faults: list[str] = []
    met: dict[str, tuple[Checkpoint, str]] = {}
    for name, lines in copies.items():
        for number, line in enumerate(lines, 1):
            checkpoint = _checkpoint_or_none(line)
            if checkpoint is not None:
                met.setdefault(checkpoint.digest, (checkpoint, f"{name}: line {number}"))
            elif line.endswith(_END):
                faults.append(f"{name}: line {number} is no checkpoint")
    genuine: list[Checkpoint] = []
    vouched: set[str] = set()
    for digest, (one, place) in sorted(met.items(), key=lambda item: item[1][0].number, reverse=True):
        if digest in vouched or _is_genuine(one, key):
            genuine.append(one)
            vouched.add(one.previous)
        else:
            faults.append(f"{place}: checkpoint {one.number} is not signed by this deployment's key")
    return History(sorted(genuine, key=lambda one: (one.number, one.at)), faults)


def _checkpoint_or_none(line: bytes) -> Checkpoint | None:
    try:
        return Checkpoint.from_bytes(line)
    except ValidationError:
        return None


def _is_genuine(checkpoint: Checkpoint, key: SigningKey) -> bool:
    own = checkpoint.key == key.public
    return own and key.is_signed(checkpoint.signed_bytes, checkpoint.signature)


def tree_hash(entries: Sequence[bytes]) -> bytes:
    """Return the root over the entries (RFC 9162 section 2.1.1), SHA-256; of none: the hash of nothing."""
    if not entries:
        return hashlib.sha256().digest()
    level = [hashlib.sha256(b"\x00" + entry).digest() for entry in entries]
    while len(level) > 1:
        odd = level[len(level) // 2 * 2 :]  # the last of an odd number moves up as it is
        level = [_node(*pair) for pair in zip(level[::2], level[1::2], strict=False)] + odd
    return level[0]


def inclusion_path(entries: Sequence[bytes], index: int) -> list[bytes]:
    """Return the hashes that lead from the entry at `index` to the root (RFC 9162 section 2.1.3.1)."""
    if len(entries) <= 1:
        return []
    split = 1 << (len(entries) - 1).bit_length() - 1
    if index < split:
        return [*inclusion_path(entries[:split], index), tree_hash(entries[split:])]
    return [*inclusion_path(entries[split:], index - split), tree_hash(entries[:split])]


def is_included(entry: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Return whether the path leads from entry to root of `size` entries (RFC 9162 section 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    place, last, found = index, size - 1, hashlib.sha256(b"\x00" + entry).digest()
    for step in path:
        if last == 0:
            return False
        if place & 1 or place == last:
            found = _node(step, found)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            found = _node(found, step)
        place, last = place >> 1, last >> 1
    return last == 0 and found == root


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()
