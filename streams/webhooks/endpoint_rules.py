"""Rules for changing an endpoint and rotating its secrets (G38, G54). Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from schemas.webhooks import SealedSecret, StoredEndpoint

LONGEST_OVERLAP: Final = timedelta(seconds=86_400)
"""How long a replaced secret may go on signing beside its successor (G38)."""

MOST_SECRETS: Final = 3
"""Secrets that sign at one time; a further rotation drops the oldest."""


def changed(stored: StoredEndpoint, values: Mapping[str, Any], now: datetime) -> StoredEndpoint:
    """Return the endpoint with changed fields; enabling it clears `disabled_reason`."""
    former = stored.endpoint
    endpoint = former.model_copy(update=dict(values))
    if endpoint.active:
        endpoint = endpoint.model_copy(update={"disabled_reason": None})
    anew = (endpoint.active and not former.active) or endpoint.url != former.url
    judged_from = now if anew else stored.judged_from
    return StoredEndpoint.from_bytes(
        stored.model_copy(update={"endpoint": endpoint, "judged_from": judged_from}).to_bytes()
    )


def rotated(stored: StoredEndpoint, sealed: str, overlap: timedelta, now: datetime) -> StoredEndpoint:
    """Return the endpoint with a new secret in force; the newest of the others go on signing beside it."""
    former, *others = stored.secrets
    ended = former.model_copy(update={"ends_at": now + overlap})
    beside = [one for one in (ended, *others) if one.ends_at is not None and one.ends_at > now]
    secrets = (SealedSecret(sealed=sealed), *beside)[:MOST_SECRETS]
    endpoint = stored.endpoint.model_copy(update={"secret_rotated_at": now})
    return StoredEndpoint.from_bytes(
        stored.model_copy(update={"endpoint": endpoint, "secrets": secrets}).to_bytes()
    )
