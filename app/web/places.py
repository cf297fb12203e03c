"""The places of the console's navigation."""

from dataclasses import dataclass
from functools import cache

from schemas.people import Permission


@dataclass(frozen=True, slots=True)
class Place:
    """A place, its icon and its text are called the same."""

    name: str
    path: str
    permission: Permission | None = None
    """Without it the place is not offered."""


@cache
def places() -> tuple[Place, ...]:
    """Return the places that have a page, as they are shown."""
    return (
        Place("review", "/console/review-cases", Permission.CASES_READ),
        Place("sessions", "/console/sessions", Permission.VERIFICATIONS_READ),
        Place("flows", "/console/flows", Permission.VERIFICATION_FLOWS_READ),
        Place("webhooks", "/console/webhooks", Permission.WEBHOOKS_MANAGE),
        Place("audit", "/console/audit", Permission.AUDIT_READ),
        Place("keys", "/console/api-keys", Permission.API_KEYS_MANAGE),
        Place("members", "/console/members", Permission.MEMBERS_MANAGE),
    )
