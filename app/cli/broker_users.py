"""The commands about readers of the embedded broker: `veristream broker-user create`, `list` and `delete`."""

from typing import Annotated

import typer

from app.cli.options import AsJson, DataDir, settings_of
from app.process.output import out, say_json, say_pairs, table

broker_users = typer.Typer(no_args_is_help=True, help="Downstream systems that read decisions.")

Name = Annotated[
    str,
    typer.Argument(help="a-z, 0-9 and -; its consumer groups are NAME and NAME.*.", metavar="NAME"),
]


@broker_users.command("create")
def create(
    name: Name,
    data_dir: DataDir = None,
    as_json: AsJson = False,  # noqa: FBT002 - an option of a command
) -> None:
    """Add a user who may read decisions and nothing else, and show its password once.

    Works while the service runs. Any Kafka client signs in with SCRAM-SHA-512 or SCRAM-SHA-256.

    Try:

      veristream broker-user create billing

      veristream broker-user create billing --json
    """
    from app.cli.actions import broker_users as commands  # noqa: PLC0415 - `--help` must not wait for it

    made = commands.create_user(settings_of(data_dir), name)
    if as_json:
        say_json({**made.pairs, "client_configuration": made.client_configuration})
        return
    say_pairs(made.pairs, as_json=False)
    out.print(f"\nkcat -F {name}.conf -G {name} {made.topic}   # with this {name}.conf:\n", highlight=False)
    for option, value in made.client_configuration.items():
        out.print(f"{option}={value}", highlight=False, soft_wrap=True)


@broker_users.command("list")
def show(
    data_dir: DataDir = None,
    as_json: AsJson = False,  # noqa: FBT002 - an option of a command
) -> None:
    """Show the users and when they were made.

    Try:

      veristream broker-user list --json
    """
    from app.cli.actions import broker_users as commands  # noqa: PLC0415 - `--help` must not wait for it

    users = commands.list_users(settings_of(data_dir))
    if as_json:
        say_json(users)
        return
    out.print(table("Broker users", ("user", "created at"), [tuple(user.values()) for user in users]))


@broker_users.command("delete")
def delete(
    name: Name,
    data_dir: DataDir = None,
    as_json: AsJson = False,  # noqa: FBT002 - an option of a command
) -> None:
    """Remove a user; its open connections are closed.

    Try:

      veristream broker-user delete billing
    """
    from app.cli.actions import broker_users as commands  # noqa: PLC0415 - `--help` must not wait for it

    say_pairs(commands.delete_user(settings_of(data_dir), name), as_json=as_json)
