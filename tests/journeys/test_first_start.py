"""R12: the first start is deliberate; a command with a mistyped folder makes nothing and says so."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import structlog
import typer
from typer.testing import CliRunner

from app.cli.main import app
from app.cli.migrate import migrate_store
from app.cli.tenants import create_tenant
from app.composition.existing_deployment import DEFAULT_FOLDER, require_deployment
from app.process.startup import CannotStart, known_variables, unknown_variables, warn_of_unknown_variables
from app.settings import Settings
from tests.journeys.service import begin_deployment, entries, veristream

STARTS: Final = {"up", "demo", "broker", "front", "worker"}
"""Commands that begin a deployment, or a role of one."""

WITHOUT_FOLDER: Final = {"webhook listen", "webhook verify", "calibrate"}
"""Commands that touch no deployment."""

OF_FILES: Final = {"policy validate", "policy show", "policy publish", "policy backtest"}
"""Commands that read a file, or send it to a service by its address."""

SAMPLES: Final = {"email": "ada@acme.example", "tenant": "ten_x", "name": "acme", "files": __file__}
"""Values of required parameters that are more than any word."""


def walk(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Return every command of the tree by its full name; typer carries a click of its own, without types."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
        return
    for part, one in inner.items():
        yield from walk(one, f"{name} {part}".strip())


COMMANDS: Final = dict(walk(typer.main.get_command(app)))


def arguments_of(command: Any) -> list[str]:
    """Return what the command cannot do without."""
    given: list[str] = []
    for parameter in command.params:
        if parameter.required:
            value = SAMPLES.get(str(parameter.name), "x")
            given += [value] if parameter.param_type_name == "argument" else [parameter.opts[0], value]
    return given


def run(name: str, *arguments: str) -> tuple[BaseException | None, str]:
    """Run a command in this process: what it raised, and its output."""
    result = CliRunner().invoke(app, [*name.split(), *arguments])
    return result.exception, result.output


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - OF_FILES))
def test_g103_every_command_takes_a_data_folder(name: str) -> None:
    assert "--data-dir" in {option for parameter in COMMANDS[name].params for option in parameter.opts}


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - STARTS - WITHOUT_FOLDER - OF_FILES))
def test_r12_a_mistyped_data_folder_is_refused_and_nothing_is_made(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "mistyped"
    refusal, _ = run(name, *arguments_of(COMMANDS[name]), "--data-dir", str(folder))

    assert isinstance(refusal, CannotStart), refusal
    assert "veristream up" in str(refusal) or "--data-dir" in str(refusal)
    assert entries(tmp_path) == []


async def test_r12_the_exit_status_is_2_and_the_message_names_the_folder_that_was_meant(
    tmp_path: Path,
) -> None:
    begin_deployment(tmp_path / "veristream-data")
    mistyped = tmp_path / "veristream-dta"
    status, _, err = await veristream(mistyped, "tenant", "create", "Acme", given={"SERVICE_DATADIR": "x"})

    assert (status, mistyped.exists(), "Traceback" in err) == (2, False, False)
    assert f"--data-dir {tmp_path / 'veristream-data'}" in err
    assert f"veristream up --data-dir {mistyped}" in err
    assert "SERVICE_DATADIR is not a setting of veristream; the nearest one is SERVICE_DATA_DIR" in err


def test_r12_a_folder_of_a_near_name_is_meant_before_the_usual_one_where_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_deployment(tmp_path / "acme-data")
    (tmp_path / "here").mkdir()
    begin_deployment(tmp_path / "here" / DEFAULT_FOLDER)
    monkeypatch.chdir(tmp_path / "here")

    with pytest.raises(CannotStart, match=f"did you mean --data-dir {tmp_path / 'acme-data'}[?]"):
        require_deployment(Settings(data_dir=tmp_path / "acme-dta"))
    with pytest.raises(CannotStart, match=f"did you mean --data-dir {DEFAULT_FOLDER}[?]"):
        require_deployment(Settings(data_dir=tmp_path / "nothing like it"))


async def test_r12_an_empty_folder_holds_no_deployment(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    for refused in (create_tenant(settings, "Acme"), migrate_store(settings)):
        with pytest.raises(CannotStart, match="veristream up"):
            await refused

    assert entries(tmp_path) == []


def test_r12_with_a_cassandra_only_the_key_must_be_there(tmp_path: Path) -> None:
    def settings(**more: Any) -> Settings:
        return Settings(data_dir=tmp_path / "none", cassandra_contact_points="127.0.0.1", **more)

    require_deployment(settings(root_key="11223344" * 8))
    with pytest.raises(CannotStart, match="SERVICE_ROOT_KEY_FILE"):
        require_deployment(settings())

    assert entries(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("SERVICE_DATADIR", "SERVICE_DATA_DIR"), ("service_prot", "SERVICE_PORT"),
        ("SERVICE_KAFKA_BOOTSTRAP_SERVERS", "SERVICE_KAFKA_BOOTSTRAP"),
        ("SERVICE_PORT_FILE", "SERVICE_PORT"), ("SERVICE_PORT__MOST", "SERVICE_PORT"),
        ("SERVICE_ROOTKEY_FILE", "SERVICE_ROOT_KEY_FILE"),
    ],
)  # fmt: skip
def test_r12_an_unknown_variable_is_named_with_the_nearest_known_one(name: str, nearest: str) -> None:
    assert list(unknown_variables([name])) == [(name, nearest)]


def test_r12_known_variables_are_not_warned_of() -> None:
    read_by_commands = {
        variable for command in COMMANDS.values() for one in command.params for variable in envvars_of(one)
    }
    known = {*known_variables(), *read_by_commands, "service_data_dir", "SERVICE_FACES__DETECTOR__PATH"}

    assert list(unknown_variables([*known, "SERVICES", "HOME", "KUBERNETES_SERVICE_HOST"])) == []


def envvars_of(parameter: Any) -> list[str]:
    """Return the variables a parameter is read from."""
    named = parameter.envvar or []
    return [named] if isinstance(named, str) else list(named)


def test_r12_a_start_logs_the_name_and_never_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_ROOT_KEYS", "a secret")
    with structlog.testing.capture_logs() as logged:
        warn_of_unknown_variables()

    assert logged == [
        {
            "event": "settings.variable_ignored", "log_level": "warning", "variable": "SERVICE_ROOT_KEYS",
            "nearest": "SERVICE_ROOT_KEY",
        }
    ]  # fmt: skip
