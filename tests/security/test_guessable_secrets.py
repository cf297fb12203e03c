"""Keys and tokens that anybody could name are refused at start (S70)."""

import base64
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.adapters.security.crypto import RootKeyRefused, load_root_key
from app.configuration.placeholders import fault_of_bytes, fault_of_token
from app.settings import SettingsRefused, read_settings
from tests.journeys.service import run_preloaded

DRAWS = 20_000
"""Random secrets of each kind that must pass."""

NAMEABLE_KEYS = [
    bytes(32),
    b"\xff" * 32,
    b"\x01\x02" * 16,
    (b"\xde\xad\xbe\xef" * 8),
    (b"0123456789a" * 3)[:32],
    bytes(range(32)),
    bytes(range(32))[::-1],
    bytes(range(0, 256, 8)),
    bytes([0] * 16 + [1] * 16),
    b"\x00" * 31 + b"\x01",
    b"changeme-changeme-changeme-12345",
    b"this is an example key, replace!",
    b"veristream-root-key-please-chang",
]


@pytest.mark.parametrize("secret", NAMEABLE_KEYS, ids=[key.hex() for key in NAMEABLE_KEYS])
@pytest.mark.parametrize("write", [bytes.hex, lambda secret: base64.b64encode(secret).decode()])
def test_s70_a_root_key_that_was_not_drawn_is_refused(tmp_path: Path, secret: bytes, write: object) -> None:
    """As a setting and in the file, in either notation; the message names the fix, never the key."""
    assert callable(write)
    text, file = write(secret), tmp_path / "root.key"
    file.write_text(text)
    file.chmod(0o600)

    for configured, source in ((SecretStr(text), "SERVICE_ROOT_KEY"), (None, str(file))):
        with pytest.raises(RootKeyRefused, match="openssl rand -base64 32") as refused:
            load_root_key(configured, file)
        assert source in str(refused.value)
        assert text not in str(refused.value)


@pytest.mark.parametrize(
    "token",
    [
        "x" * 32,
        "0" * 64,
        "ab" * 20,
        "changeme" * 5,
        "changeme-changeme-changeme-changeme!",
        "CHANGE_ME_CHANGE_ME_CHANGE_ME_CHANGE_ME",
        "replace-this-with-a-long-random-string",
        "your-operator-token-here-your-operator-token",
        "this-is-an-example-operator-token-change-it",
        "super-secret-operator-token-for-production",
        "placeholder-placeholder-placeholder-1",
        "0123456789abcdef0123456789abcdef",
        "password-password-password-password-1234",
        "secretsecretsecretsecretsecretsecret42",
    ],
)
def test_s70_a_placeholder_is_no_operator_token(token: str) -> None:
    with pytest.raises(SettingsRefused, match="openssl rand -base64 48") as refused:
        read_settings(platform_operator_token=SecretStr(token))

    assert "SERVICE_PLATFORM_OPERATOR_TOKEN" in str(refused.value)
    assert token not in str(refused.value)


def test_s70_what_was_drawn_at_random_is_never_refused() -> None:
    """Root keys, and tokens as the README, openssl and Python make them."""
    for _ in range(DRAWS):
        assert fault_of_bytes(secrets.token_bytes(32)) is None
        assert fault_of_token(secrets.token_hex(32)) is None
        assert fault_of_token(base64.b64encode(secrets.token_bytes(48)).decode()) is None
    for token in (secrets.token_hex(16), f"veristream-operator-{secrets.token_hex(16)}"):
        read_settings(platform_operator_token=SecretStr(token))


@pytest.mark.parametrize(
    ("variable", "value"),
    [("SERVICE_ROOT_KEY", "00" * 32), ("SERVICE_PLATFORM_OPERATOR_TOKEN", "changeme-" * 4)],
)
async def test_s70_the_service_does_not_start_with_a_nameable_secret(
    tmp_path: Path, variable: str, value: str
) -> None:
    status, out, err = await run_preloaded(tmp_path, "up", "--port", "0", given={variable: value})

    assert status == 2
    assert variable in err
    assert "openssl rand" in err
    assert value not in out + err
    assert "Traceback" not in out + err


def test_s70_a_process_leaves_no_core_dump() -> None:
    """What a crash would write to the disk holds keys and images in the clear."""
    asked = "app = lambda: print(*resource.getrlimit(resource.RLIMIT_CORE))"
    program = f"import resource; from app import __main__ as command; command.{asked}; command.main()"
    ran = subprocess.run(  # noqa: S603 - its words are ours
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )

    assert ran.stdout == "0 0\n"
