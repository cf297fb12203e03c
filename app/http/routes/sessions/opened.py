"""Answer an opened session from its stored form, of which only what is shown is parsed.

The larger part of a stored session is its flow's configuration, the same in all sessions of a revision: it is
validated and written once.
"""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Final

import msgspec

from schemas.base import rfc3339
from schemas.flows import FlowConfiguration
from schemas.ids import SessionId, TenantId
from streams.ports.records import Record

MOST_CONFIGURATIONS: Final = 256
"""Configurations whose written form is remembered, some kilobytes each."""

IssueToken = Callable[[TenantId, SessionId, datetime], str]
"""Return the client token of a session that ends then."""


class _Session(msgspec.Struct):
    session_id: str
    expires_at: datetime | None = None
    flow_revision: int | None = None


class _Stored(msgspec.Struct):
    """The parts of `StoredSession` that are shown."""

    session: _Session
    configuration: msgspec.Raw


class _Shown(msgspec.Struct):
    """`OpenedSession` with its configuration already written."""

    session_id: str
    url: str
    client_token: str
    expires_at: str
    flow_revision: int
    configuration: msgspec.Raw


def write_opened(record: Record, issue: IssueToken, base_url: str) -> bytes:
    """Return the session as it was answered when it was opened, the same whatever happened since."""
    stored = msgspec.json.decode(record.first_body or record.body, type=_Stored)
    session_id, ends, revision = SessionId(stored.session.session_id), *_standing(stored.session)
    token = issue(record.tenant_id, session_id, ends)
    configuration = msgspec.Raw(_written(bytes(stored.configuration)))
    url = f"{base_url}/verify#{token}"
    return msgspec.json.encode(_Shown(session_id, url, token, rfc3339(ends), revision, configuration))


def _standing(session: _Session) -> tuple[datetime, int]:
    if session.expires_at is None or session.flow_revision is None:
        raise ValueError("a hosted session has an end and a revision")
    return session.expires_at, session.flow_revision


@lru_cache(maxsize=MOST_CONFIGURATIONS)
def _written(stored: bytes) -> bytes:
    return FlowConfiguration.from_bytes(stored).model_dump_json().encode()
