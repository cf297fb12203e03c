"""Rate limits as a setting: defaults and parsing (G62, S61)."""

from pydantic import Field, ValidationError

from schemas.base import Frozen


class RateLimits(Frozen):
    """Requests per minute, but for `sign_in` and `rejected`."""

    key: int = Field(default=300, ge=1)
    """Per key, reviewer session or client token: the sum of every route."""
    verifications: int = Field(default=60, ge=1)
    """Per key: `POST /v1/verifications` alone."""
    tenant: int = Field(default=1200, ge=1)
    """The sum of all keys of a tenant, every route: more keys do not raise it above four keys' limit."""
    tenant_verifications: int = Field(default=240, ge=1)
    """The sum of all keys of a tenant: `POST /v1/verifications` alone."""
    capture: int = Field(default=60, ge=1)
    """Per client token (G62)."""
    capture_frames: int = Field(default=120, ge=1)
    """Per client token: frames of movements, which do not count against `capture` (P10)."""
    sign_in: int = Field(default=10, ge=1)
    """Sign-ins in 15 minutes, counted in the store: all of an address, failed ones of an account (G96)."""
    rejected: int = Field(default=100, ge=1)
    """Refused credentials per minute and address; over it their answer is 429 instead of 401."""


def parse_rate_limits(setting: str) -> RateLimits | None:
    """Read the setting: `on`, `off` (None), or the numbers as a JSON object.

    Raises:
        ValueError: It is none of these.
    """
    match setting.strip().lower():
        case "on" | "":
            return RateLimits()
        case "off":
            return None
    try:
        return RateLimits.model_validate_json(setting)
    except ValidationError as error:
        complaints = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ValueError(f"neither on, off nor a JSON object of limits: {complaints}") from None
