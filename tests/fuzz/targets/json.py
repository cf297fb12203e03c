"""Bodies of requests, from bytes to the model of a route: strict JSON, then every field."""

import json
from typing import Final

from pydantic import BaseModel

from app.http.bodies import _validated
from app.http.routes.flows.bodies import CreateFlowBody, EditFlowBody
from app.http.routes.review_cases.bodies import AssignBody, ConcludeBody, NoteBody
from app.http.routes.sessions.bodies import CaptureImageBody, ConsentBody, OpenSessionBody, SubmitCaptureBody
from app.http.routes.webhooks.bodies import (
    ChangeEndpointBody,
    CreateEndpointBody,
    ReplayRangeBody,
    RotateSecretBody,
)
from app.intake.body import SubmitBody
from schemas.problems import Refused

MODELS: Final[tuple[type[BaseModel], ...]] = (
    SubmitBody,
    CreateFlowBody,
    EditFlowBody,
    OpenSessionBody,
    ConsentBody,
    CaptureImageBody,
    SubmitCaptureBody,
    CreateEndpointBody,
    ChangeEndpointBody,
    RotateSecretBody,
    ReplayRangeBody,
    AssignBody,
    NoteBody,
    ConcludeBody,
)
"""The first byte chooses."""

REPEATED: Final = b"\xf8"
"""Never part of UTF-8; what follows it is repeated often, so that long bodies are reached by short inputs."""

_COMMANDS: Final = (
    (0, {"subject_id": "s", "document": {"image_base64": "AAAA", "type": "PASSPORT"},
         "selfie_image_base64": "AAAA", "declared": {"full_name": "A B", "date_of_birth": "1990-01-01"}}),
    (1, {"name": "Journey", "documents": ["PASSPORT"], "return_url": "https://shop.example/"}),
    (3, {"flow_id": "vf_00000000000000000000000000", "subject_id": "s", "expires_in_minutes": 30}),
    (7, {"url": "https://hooks.acme.example/in", "event_types": ["*"], "secret": "whsec_" + "A" * 32}),
    (13, {"outcome": "APPROVED", "note": "fine"}),
)  # fmt: skip

SEEDS = (
    *(bytes([number]) + json.dumps(command).encode() for number, command in _COMMANDS),
    b"\0" + b'{"a":' * 40 + b"1" + b"}" * 40,
    b"\0" + b"[" * 2_000,
    b'\0{"a":1e400,"b":NaN,"c":"\\ud800","d":"\\u0000"}',
    b'\0{"a":1,"a":2}',
    b'\0{"' + REPEATED + b'a":1}',
    b'\0{"a":"' + REPEATED + b'x"}',
    b"\0" + REPEATED + b"[1],",
    b"\0" + b"9" * 5_000,
)


def target(data: bytes) -> None:
    """Read one body as the front does, whatever the route's model."""
    if not data:
        return
    model, (head, mark, tail) = MODELS[data[0] % len(MODELS)], data[1:].partition(REPEATED)
    raw = head + tail[:8] * 20_000 + tail[8:] if mark else head
    try:
        _validated(raw, model)
    except Refused as refused:
        refused.refusal.to_bytes()  # it is answered
