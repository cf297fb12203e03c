"""Create and check time-based one-time codes and recovery codes (RFC 6238, G28). Pure.

pyotp computes the codes; this module decides which step a code belongs to and which were used.
"""

import base64
import hmac
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from pyotp import TOTP

from schemas.ids import ALPHABET

STEP_S: Final = 30
DIGITS: Final = 6

SEED_BYTES: Final = 20
"""RFC 4226 section 4 R6 recommends 160 bits."""

RECOVERY_CODES: Final = 10
RECOVERY_LENGTH: Final = 24
"""Characters of 5 bits: 120 bits, so a keyed hash without stretching is enough (S23 asks for 112)."""

ISSUER: Final = "Veristream"

_GROUP: Final = 4
_SPOKEN: Final = str.maketrans({"o": "0", "i": "1", "l": "1", "-": "", " ": ""})
"""Crockford's reading of characters that look alike."""


def step_of(now: datetime) -> int:
    """Return the time step of a time (RFC 6238 section 4.2, T0 = 0)."""
    return int(now.timestamp()) // STEP_S


def code_of(seed: bytes, step: int) -> str:
    """Return the code of a time step (RFC 4226 section 5.3, HMAC-SHA-1)."""
    return TOTP(secret_of(seed), digits=DIGITS, interval=STEP_S).generate_otp(step)


def accepted_step(seed: bytes, code: str, now: datetime, *, drift_steps: int, after: int) -> int | None:
    """Return the time step of the code, or None when no accepted step has it.

    Steps up to `after` were used (RFC 6238 section 5.2); every candidate is compared, whichever fits.
    """
    present = step_of(now)
    found = None
    for step in range(max(0, present - drift_steps), present + drift_steps + 1):
        fits = hmac.compare_digest(code_of(seed, step).encode(), code.encode())
        if fits and step > after and found is None:
            found = step
    return found


def secret_of(seed: bytes) -> str:
    """Return the seed in base32 without padding, for an authenticator."""
    return base64.b32encode(seed).rstrip(b"=").decode()


def otpauth_uri(seed: bytes, account: str) -> str:
    """Return the otpauth URI for an authenticator; algorithm, digits and period are the defaults."""
    return TOTP(secret_of(seed)).provisioning_uri(name=account, issuer_name=ISSUER)


def draw_recovery_codes(draw: Callable[[int], bytes]) -> tuple[str, ...]:
    """Return new recovery codes in groups of four characters."""
    return tuple(_written(draw(RECOVERY_LENGTH)) for _ in range(RECOVERY_CODES))


def _written(entropy: bytes) -> str:
    text = "".join(ALPHABET[byte & 31] for byte in entropy)
    return "-".join(text[start : start + _GROUP] for start in range(0, RECOVERY_LENGTH, _GROUP))


def normal_recovery_code(given: str) -> str:
    """Return a recovery code in the form that is hashed, without separators and look-alike characters."""
    return given.lower().translate(_SPOKEN)


def without_code(hashes: Sequence[str], presented: str) -> tuple[str, ...] | None:
    """Return the remaining hashes after using the presented one, or None when it is not among them.

    All are compared, in constant time each.
    """
    fits = [hmac.compare_digest(stored.encode(), presented.encode()) for stored in hashes]
    if not any(fits):
        return None
    return tuple(stored for stored, used in zip(hashes, fits, strict=True) if not used)
