"""Options that several commands share, and settings read from them."""

from pathlib import Path
from typing import Annotated

import typer

from app.process.output import say_warning
from app.process.startup import installed_version, unknown_variables
from app.settings import Settings, read_settings

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", help="Where everything is stored \\[default: SERVICE_DATA_DIR or veristream-data]."
    ),
]
NoDataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Taken as by every command; nothing in it is needed here.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Port = Annotated[
    int | None, typer.Option("--port", help="Port of the HTTP front \\[default: 8080; 0: a free one].")
]
BrokerPort = Annotated[
    int | None,
    typer.Option("--broker-port", help="Port of the embedded broker \\[default: a free one, remembered]."),
]
TenantOption = Annotated[str, typer.Option("--tenant", help="Tenant id, ten_….")]


def settings_of(data_dir: Path | None, **given: object) -> Settings:
    """Return the settings of a command; what the command line names wins over the environment.

    Variables that look like settings and are none are named on stderr.

    Raises:
        SettingsRefused: A setting is malformed.
    """
    for name, nearest in unknown_variables():
        say_warning(f"{name} is not a setting of veristream; the nearest one is {nearest}")
    return read_settings(data_dir=data_dir, **given)


def start_settings_of(data_dir: Path | None, **given: object) -> Settings:
    """Return the settings of a role that starts, which logs its warnings itself; raises as `settings_of`."""
    return read_settings(data_dir=data_dir, **given)


def service_url(settings: Settings) -> str:
    """Return where the service of these settings is called from this machine."""
    if settings.base_url is not None:
        return settings.base_url.rstrip("/")
    host = "127.0.0.1" if settings.host in {"0.0.0.0", "::"} else settings.host  # noqa: S104 - compared
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"


def show_version(asked: bool) -> None:
    """Print the version and exit if the option was given."""
    if asked:
        typer.echo(f"veristream {installed_version()}")
        raise typer.Exit


ShowVersion = Annotated[
    bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and end.")
]
