"""The port of the search among the faces of approved subjects, and the stored form of a face.

A face is stored only in its verification's record, sealed under the subject's key (`records.face_label`),
and only where the tenant's policy enables the search. Implementations of the port read it from there.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

import numpy as np

from schemas.ids import SubjectId, TenantId, VerificationId
from streams.ports.errors import Damaged
from streams.vision_ports import Embedding

_END_OF_VERSION: Final = b"\x00"
_FLOAT32: Final = np.dtype("<f4")


@dataclass(frozen=True, slots=True)
class FaceQuery:
    """A face, and the faces to search."""

    tenant_id: TenantId
    livemode: bool
    model_version: str
    """The engine of the embedding; embeddings of others cannot be compared with it."""
    subject_id: SubjectId
    """The subject, whose own earlier faces are left out."""
    face: Embedding = field(repr=False)
    at: datetime
    """The time of the query."""
    since: datetime
    """Faces of verifications decided before it are not searched."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A face of another subject."""

    verification_id: VerificationId
    """The approved verification it was taken in."""
    face: Embedding = field(repr=False)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The result of a search."""

    compared: int
    """How many faces of other subjects there were."""
    nearest: Neighbour | None
    """By Euclidean distance, which for vectors of unit length orders as the angle does."""


class FaceSearch(Protocol):
    """Find the nearest face among the approved subjects of one tenant in one mode.

    For more faces than fit into one process, implement this over another index, which needs
    only the records of verifications, the decision feed and the vault.
    """

    async def nearest(self, query: FaceQuery) -> Neighbours:
        """Return the nearest face of another subject, and how many faces were compared.

        Searched are the faces of verifications that are APPROVED, by whatever actor and in whatever
        process; one that was approved within the last seconds may be missing. A subject whose key was
        destroyed before the call is not searched, and nothing of it stays in memory.

        Raises:
            StoreUnavailable: The faces cannot be read or are not known to be all that stand.
        """
        ...

    def forget(self, tenant_id: TenantId) -> None:
        """Drop a tenant's faces from memory; a later query reads them again."""
        ...


def pack_face(model_version: str, face: Embedding) -> bytes:
    """Return the bytes of a face, to be sealed."""
    return model_version.encode() + _END_OF_VERSION + face.astype(_FLOAT32).tobytes()


def unpack_face(packed: bytes) -> tuple[str, Embedding]:
    """Return the engine's version and the face.

    Raises:
        Damaged: It is not what `pack_face` wrote.
    """
    version, end, raw = packed.partition(_END_OF_VERSION)
    if not end or not raw or len(raw) % _FLOAT32.itemsize:
        raise Damaged("a stored face is malformed")
    return version.decode(), np.frombuffer(raw, _FLOAT32).astype(np.float32)
