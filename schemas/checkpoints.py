"""Checkpoints of the audit log: a signed statement of where the chain of every tenant ended (S57)."""

import hashlib
import json
import re
from typing import Final, Self

from typing_extensions import override

from schemas.base import Frozen, Timestamp
from schemas.ids import TenantId

NO_CHECKPOINT: Final = "0" * 64
"""What the first checkpoint follows."""

_HEAD_FORM: Final = re.compile(r"([a-z0-9_]{1,64}):([1-9][0-9]{0,18}):([0-9a-f]{64})")


class ChainHead(Frozen):
    """The last link of one tenant's chain; written `tenant:position:hash`."""

    tenant_id: TenantId
    position: int
    """Rows in the chain up to this one."""
    hash: str
    """`ChainLink.hash`: 64 hexadecimal digits."""

    @override
    def __str__(self) -> str:
        """Return `tenant:position:hash`."""
        return f"{self.tenant_id}:{self.position}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `tenant:position:hash`.

        Raises:
            ValueError: The text has another form.
        """
        found = _HEAD_FORM.fullmatch(text.strip())
        if found is None:
            raise ValueError("a head is written tenant:position:hash, as `veristream audit verify` prints it")
        tenant, position, own = found.groups()
        return cls(tenant_id=TenantId(tenant), position=int(position), hash=own)


class Checkpoint(Frozen):
    """Heads of chains at one moment, signed with Ed25519 (RFC 8032) and linked to the checkpoint before it.

    The checkpoints from `base` to `number` name the head of every chain: only heads that changed are
    named again.
    """

    number: int
    """Counted from 1 in one deployment, without gaps."""
    at: Timestamp
    base: int
    """The number of the first checkpoint that must be read to know every head."""
    chains: int
    """How many chains there were."""
    root: str
    """Merkle tree hash (RFC 9162 section 2.1.1) over `str(head)` of all chains, sorted by tenant."""
    heads: tuple[ChainHead, ...]
    previous: str
    """`digest` of the checkpoint before it, 64 zeros for the first."""
    key: str
    """The public key that signed it, hexadecimal; the same for all of a deployment."""
    signature: str = ""
    """Ed25519 over `signed_bytes`, hexadecimal."""

    @property
    def signed_bytes(self) -> bytes:
        """The signed bytes: the JSON object without `signature`, keys sorted, no white space, UTF-8."""
        return _canonical(self.model_dump(mode="json", exclude={"signature"}))

    @property
    def line(self) -> bytes:
        """The checkpoint's stored line: the same form with `signature`, without a line end."""
        return _canonical(self.model_dump(mode="json"))

    @property
    def digest(self) -> str:
        """SHA-256 of `line`, hexadecimal."""
        return hashlib.sha256(self.line).hexdigest()


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
