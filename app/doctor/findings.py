"""What the doctor finds."""

from schemas.base import Frozen


class Finding(Frozen):
    """What one look found."""

    looked_at: str
    ok: bool
    found: str
    fix: str | None = None
