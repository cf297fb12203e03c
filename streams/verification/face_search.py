"""The promise of a search among the faces of approved subjects, and the form in which a face is kept.

A face is kept only in the record of its verification, sealed under the subject's key (`keeping.face_label`),
and only where the tenant's policy asks for the search. Whatever implements the promise derives from there.
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
    """A face, and among which faces its nearest is sought."""

    tenant_id: TenantId
    livemode: bool
    model_version: str
    """Of the engine that took the vector; vectors of others say nothing beside it."""
    subject_id: SubjectId
    """Whose face it is; the subject's own earlier faces are left out."""
    face: Embedding = field(repr=False)
    at: datetime
    """The moment of the question."""
    since: datetime
    """Faces of verifications decided before it are not looked at."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A face of another subject."""

    verification_id: VerificationId
    """The approved verification it was taken in."""
    face: Embedding = field(repr=False)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What a search found."""

    compared: int
    """How many faces of other subjects there were."""
    nearest: Neighbour | None
    """By Euclidean distance, which for vectors of unit length orders as the angle does."""


class FaceSearch(Protocol):
    """Finds the nearest face among the approved subjects of one tenant in one mode.

    For more faces than one process can hold, implement this over another index: of the kept faces it needs
    only the records of verifications, the feed of decisions and the vault.
    """

    async def nearest(self, query: FaceQuery) -> Neighbours:
        """Return the nearest face of another subject.

        Looked at are the faces of verifications that stand APPROVED, whoever approved them and in whichever
        process; one that was approved within the last seconds may be missing. A subject whose key was
        destroyed before the call is not looked at, and nothing of it stays in memory.

        Raises:
            StoreUnavailable: The faces cannot be read or are not known to be all that stand.
        """
        ...

    def forget(self, tenant_id: TenantId) -> None:
        """Drop what is in memory of a tenant; a later question reads it again."""
        ...


def pack_face(model_version: str, face: Embedding) -> bytes:
    """Return a face as it is sealed."""
    return model_version.encode() + _END_OF_VERSION + face.astype(_FLOAT32).tobytes()


def unpack_face(packed: bytes) -> tuple[str, Embedding]:
    """Return the engine's version and the face.

    Raises:
        Damaged: It is not what `pack_face` wrote.
    """
    version, end, raw = packed.partition(_END_OF_VERSION)
    if not end or not raw or len(raw) % _FLOAT32.itemsize:
        raise Damaged("a kept face is none")
    return version.decode(), np.frombuffer(raw, _FLOAT32).astype(np.float32)
