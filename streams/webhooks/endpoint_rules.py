"""What a change makes of an endpoint, and a rotation of its secrets (G38, G54). Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from schemas.webhooks import SealedSecret, StoredEndpoint

LONGEST_OVERLAP: Final = timedelta(seconds=86_400)
"""How long a secret may sign beside the one that took its place (G38)."""

MOST_SECRETS: Final = 3
"""Secrets that sign at one time; a rotation beyond it lets the oldest go."""


def changed(stored: StoredEndpoint, values: Mapping[str, Any], now: datetime) -> StoredEndpoint:
    """Return the endpoint with other fields; enabled again, it is no longer said to be disabled."""
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
    """Return the endpoint with another secret in force; what may sign beside it is the newest of the rest."""
    former, *others = stored.secrets
    ended = former.model_copy(update={"ends_at": now + overlap})
    beside = [one for one in (ended, *others) if one.ends_at is not None and one.ends_at > now]
    secrets = (SealedSecret(sealed=sealed), *beside)[:MOST_SECRETS]
    endpoint = stored.endpoint.model_copy(update={"secret_rotated_at": now})
    return StoredEndpoint.from_bytes(
        stored.model_copy(update={"endpoint": endpoint, "secrets": secrets}).to_bytes()
    )
