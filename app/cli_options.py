"""What several commands take: the options they share, and how the settings are read from them."""

from pathlib import Path
from typing import Annotated

import typer

from app.settings import Settings, read_settings

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", help="Where everything is kept \\[default: SERVICE_DATA_DIR or veristream-data]."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
TenantOption = Annotated[str, typer.Option("--tenant", help="Tenant id, ten_….")]


def settings_of(data_dir: Path | None, **given: object) -> Settings:
    """Return the settings; what the command line names wins over the environment.

    Raises:
        SettingsRefused: A setting is malformed.
    """
    return read_settings(data_dir=data_dir, **given)
