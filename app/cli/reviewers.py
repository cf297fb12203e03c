"""The commands about members: `veristream reviewer create`, `reset` and `remove`."""

import asyncio
from typing import Annotated

import typer

from app.cli.options import AsJson, DataDir, TenantOption, settings_of
from app.process.output import say_pairs
from schemas.people import Role

reviewers = typer.Typer(no_args_is_help=True, help="Members of a tenant, who sign in and review.")

Email = Annotated[str, typer.Option("--email", help="E-mail address, which signs in.")]


@reviewers.command("create")
def reviewer_create(
    tenant: TenantOption,
    email: Email,
    role: Annotated[
        Role, typer.Option("--role", case_sensitive=False, help="What the member may do.")
    ] = Role.REVIEWER,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Name that colleagues see \\[default: from the e-mail address]."),
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,  # noqa: FBT002 - an option of a command
) -> None:
    """Add a member and show the password drawn for it once; works while the service runs.

    Try:

      veristream reviewer create --tenant ten_… --email ada.obi@acme.example --role OWNER

      veristream reviewer create --tenant ten_… --email ada@acme.example --name "Ada Obi" --json
    """
    from app.cli.actions import reviewers as commands  # noqa: PLC0415 - `--help` must not wait for it

    made = commands.create_reviewer(settings_of(data_dir), tenant, email=email, name=name, role=role)
    say_pairs(asyncio.run(made), as_json=as_json)


@reviewers.command("reset")
def reviewer_reset(
    tenant: TenantOption,
    email: Email,
    data_dir: DataDir = None,
    as_json: AsJson = False,  # noqa: FBT002 - an option of a command
) -> None:
    """Show a one-time token to set a new password with; the second factor stays.

    Works while the service runs. It is good for an hour: POST /v1/control/password/reset
    {"token": …, "new_password": …}

    Try:

      veristream reviewer reset --tenant ten_… --email ada@acme.example --json
    """
    from app.cli.actions import reviewers as commands  # noqa: PLC0415 - `--help` must not wait for it

    given = commands.reset_reviewer(settings_of(data_dir), tenant, email)
    say_pairs(asyncio.run(given), as_json=as_json)


@reviewers.command("remove")
def reviewer_remove(
    tenant: TenantOption,
    email: Email,
    data_dir: DataDir = None,
    as_json: AsJson = False,  # noqa: FBT002 - an option of a command
) -> None:
    """Remove a member of a tenant and free the e-mail address, for whichever tenant invites it next.

    Works while the service runs; every session of the member ends. What the member did stays in the
    audit log.

    Try:

      veristream reviewer remove --tenant ten_… --email ada@acme.example
    """
    from app.cli.actions import reviewers as commands  # noqa: PLC0415 - `--help` must not wait for it

    removed = commands.remove_reviewer(settings_of(data_dir), tenant, email)
    say_pairs(asyncio.run(removed), as_json=as_json)
