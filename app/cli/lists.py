"""The commands that list: `veristream tenant list`, `key list` and `reviewer list`."""

import asyncio
from typing import Annotated

import typer

from app.cli.options import AsJson, DataDir, settings_of

AnyTenant = Annotated[str | None, typer.Option("--tenant", help="Tenant id \\[default: every tenant].")]


def tenant_list(data_dir: DataDir = None, as_json: AsJson = False) -> None:  # noqa: FBT002 - an option of a command
    """List the tenants, newest first; works while the service runs.

    Try:

      veristream tenant list

      veristream tenant list --json
    """
    from app.cli.actions import lists  # noqa: PLC0415 - `--help` must not wait for it

    asyncio.run(lists.TENANTS.say(settings_of(data_dir), as_json=as_json))


def key_list(
    tenant: AnyTenant = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,  # noqa: FBT002 - an option of a command
) -> None:
    """List API keys with their state, revoked ones too; a key itself is shown only when it is made.

    `--json` has their scopes, networks and times as well.

    Try:

      veristream key list

      veristream key list --tenant ten_… --json
    """
    from app.cli.actions import lists  # noqa: PLC0415 - `--help` must not wait for it

    asyncio.run(lists.KEYS.say(settings_of(data_dir), tenant, as_json=as_json))


def reviewer_list(
    tenant: AnyTenant = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,  # noqa: FBT002 - an option of a command
) -> None:
    """List members with role and state: active, suspended, or invited and without a password yet.

    Try:

      veristream reviewer list

      veristream reviewer list --tenant ten_… --json
    """
    from app.cli.actions import lists  # noqa: PLC0415 - `--help` must not wait for it

    asyncio.run(lists.REVIEWERS.say(settings_of(data_dir), tenant, as_json=as_json))
