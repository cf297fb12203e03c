"""Idempotency of create routes: derive the id from the key, and detect replays (G2)."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from uuid import UUID

from pydantic import BaseModel

from app.http.endpoints import Answer, Call
from app.http.headers import idempotency_key
from schemas.base import Frozen
from schemas.ids import TenantId, derive_id, encode_id
from schemas.problems import ProblemCode

REPLAYED: Final = "Idempotent-Replayed"
"""Header of an answer that was given before."""

LOCATION: Final = {"Location": "Where what was created can be read."}
"""Description of the header of an answer 201 (RFC 9110 section 15.3.2)."""

KEY_PROBLEMS: Final = (ProblemCode.IDEMPOTENCY_KEY_INVALID, ProblemCode.IDEMPOTENCY_KEY_REUSED)
"""What a route that heeds an Idempotency-Key may answer beside its own problems."""


@dataclass(frozen=True, slots=True)
class Naming:
    """The id and fingerprint of a create request."""

    id: str
    """Derived from tenant, mode, route and key; fresh without a key."""
    fingerprint: str
    """SHA-256 of the canonical body, hexadecimal."""


def created_or_replayed(
    created: Answer,
    schema: type[BaseModel],
    replayed: str = "The key had been used: the first answer again.",
    *,
    meaning: str = "Always `true`.",
) -> dict[HTTPStatus, Answer]:
    """Describe both answers of a create route: 201, and 200 to a key that was used before.

    `replayed` says what the second one is, `meaning` what its header says.
    """
    again = Answer(replayed, schema, headers={REPLAYED: meaning})
    return {HTTPStatus.CREATED: created, HTTPStatus.OK: again}


def name_created(
    prefix: str,
    call: Call,
    body: Frozen,
    fresh_uuid: Callable[[], UUID],
    *,
    tenant_id: TenantId,
    livemode: bool = True,
) -> Naming:
    """Return the id and fingerprint of what the request creates.

    Raises:
        Refused: IDEMPOTENCY_KEY_INVALID.
    """
    key, endpoint = idempotency_key(call.request), call.endpoint
    if key is None or endpoint is None:
        return Naming(encode_id(prefix, fresh_uuid()), fingerprint_of(body))
    mode, route = "live" if livemode else "test", f"{endpoint.method} {call.request.path}"
    return Naming(derive_id(prefix, tenant_id, mode, route, key), fingerprint_of(body))


def created_at(path: str, resource_id: str) -> dict[str, str]:
    """Return the headers of an answer 201: where the resource of a collection can be read."""
    return {"Location": f"{path}/{resource_id}"}


def fingerprint_of(body: Frozen) -> str:
    """Return the SHA-256 of the canonical body: the same whatever its key order or spacing."""
    canonical = json.dumps(body.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
