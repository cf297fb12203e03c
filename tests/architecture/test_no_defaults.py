"""S28: no profile has a password, a key or an account that everybody knows."""

import re
from pathlib import Path

import pytest

from app.settings import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = sorted(filter(Path.is_file, (ROOT / "deploy").iterdir()))  # byte code may lie beside them
PROFILES = [ROOT / "docker-compose.yml", ROOT / "Dockerfile", *DEPLOY]

GIVEN = re.compile(
    r"(?im)^\s*-?\s*(?:ENV\s+|export\s+)?[\"']?[a-z0-9_.-]*(?:password|passwd|token|secret|root_key|api_key)"
    r"[\"']?\s*[:=]\s*[\"']?(?P<value>[^\s\"'#]+)"
)
"""A line that gives a secret a value."""

NO_VALUE = re.compile(r"str|Any|_secret\(|\$.*|/run/secrets/.*|\{file:?|\[.*")
"""A type, what reads a file, a variable, a file, a list of names."""


def given(text: str) -> list[str]:
    """The values that lines of a file give to secrets."""
    return [found["value"] for found in GIVEN.finditer(text) if not NO_VALUE.fullmatch(found["value"])]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda path: path.name)
def test_s28_no_profile_gives_a_secret_a_value(profile: Path) -> None:
    assert given(profile.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "SERVICE_ROOT_KEY: abc",
        "  - SERVICE_KAFKA_PASSWORD=veristream",
        "ENV API_KEY=x",
        'password = "cassandra"',
    ],
)
def test_s28_a_value_would_be_noticed(line: str) -> None:
    assert len(given(line)) == 1


def test_s28_every_secret_setting_is_unset_by_default() -> None:
    secrets = {name: one for name, one in Settings.model_fields.items() if "SecretStr" in str(one.annotation)}

    assert {name for name, one in secrets.items() if one.default is not None} == set()
    assert len(secrets) >= 4
