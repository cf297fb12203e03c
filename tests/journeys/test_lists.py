"""`veristream tenant list`, `key list`, `reviewer list` and `--version`, run in this process."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli.actions.lists import key_row, reviewer_row
from app.cli.main import app
from app.process.version import installed_version
from schemas.people import Reviewer, Role
from tests.builders import ACME, NOW, build_api_key
from tests.journeys.service import begin_deployment

REVIEWER = {
    "reviewer_id": "usr_1", "tenant_id": ACME, "email": "ada@acme.example", "name": "Ada Obi",
    "role": Role.REVIEWER, "created_at": NOW, "updated_at": NOW,
}  # fmt: skip


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """The data folder of a deployment that was started."""
    begin_deployment(tmp_path)
    return tmp_path


def run(data_dir: Path, *arguments: str) -> str:
    """Run a command in this process; returns what it printed."""
    done = CliRunner().invoke(app, [*arguments, "--data-dir", str(data_dir)])
    assert done.exit_code == 0, done.output
    return done.output


def run_json(data_dir: Path, *arguments: str) -> Any:
    """Run a command in this process; returns what it printed with --json."""
    return json.loads(run(data_dir, *arguments, "--json"))


def test_the_version_is_the_packages_own() -> None:
    done = CliRunner().invoke(app, ["--version"])

    assert (done.exit_code, done.output) == (0, f"veristream {installed_version()}\n")


def test_lists_show_what_was_made_of_one_tenant_or_of_all_and_never_a_secret(data_dir: Path) -> None:
    first, second = (run_json(data_dir, "tenant", "create", name)["tenant_id"] for name in ("Acme", "[b]Bix"))
    keys = [run_json(data_dir, "key", "create", "--tenant", tenant, "--test") for tenant in (first, second)]
    member = ("--tenant", first, "--email", "ada@acme.example", "--role", "OWNER")
    ada = run_json(data_dir, "reviewer", "create", *member)
    run(data_dir, "key", "revoke", keys[0]["key_id"], "--tenant", first)

    tenants = run_json(data_dir, "tenant", "list")
    listed = run_json(data_dir, "key", "list")
    of_one = run_json(data_dir, "key", "list", "--tenant", first)
    people = run_json(data_dir, "reviewer", "list")
    text = "".join(run(data_dir, *command, "list") for command in (["tenant"], ["key"], ["reviewer"]))

    assert [(one["tenant_id"], one["name"]) for one in tenants] == [(second, "[b]Bix"), (first, "Acme")]
    assert {one["key_id"]: (one["mode"], one["state"]) for one in listed} == {
        keys[0]["key_id"]: ("test", "revoked"),
        keys[1]["key_id"]: ("test", "active"),
    }
    assert [one["key_id"] for one in of_one] == [keys[0]["key_id"]]
    assert [(one["reviewer_id"], one["role"], one["state"]) for one in people] == [
        (ada["reviewer_id"], "OWNER", "active")
    ]
    assert all(id_ in text for id_ in (first, second, "[b]Bix", keys[1]["key_id"], "ada@acme.example"))
    shown = text + json.dumps([tenants, listed, of_one, people])
    secret = [*(key["api_key"] for key in keys), *(key["api_key"][9:19] for key in keys), ada["password"]]
    assert not [one for one in [*secret, "hash", "argon2", "sealed"] if one in shown]


def test_a_list_of_nothing_says_how_to_make_the_first(data_dir: Path) -> None:
    assert "veristream tenant create" in run(data_dir, "tenant", "list")
    assert "veristream key create" in run(data_dir, "key", "list")
    assert run_json(data_dir, "reviewer", "list") == []


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "active"),
        ({"expires_at": NOW + timedelta(days=2)}, "active"),
        ({"expires_at": NOW}, "expired"),
        ({"expires_at": NOW, "revoked_at": NOW}, "revoked"),
    ],
)
def test_the_state_of_a_key_is_a_word(changes: dict[str, Any], state: str) -> None:
    assert key_row(build_api_key(**changes), NOW + timedelta(days=1))["state"] == state


@pytest.mark.parametrize(
    ("changes", "state"),
    [({}, "invited"), ({"password_hash": "$argon2"}, "active"), ({"active": False}, "suspended")],
)
def test_the_state_of_a_member_is_a_word(changes: dict[str, Any], state: str) -> None:
    assert reviewer_row(Reviewer.model_validate(REVIEWER | changes), NOW)["state"] == state
