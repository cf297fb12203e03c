"""Commands of the demonstration: `demo` and `demo reset`."""

import asyncio
from typing import Annotated

import typer

from app.cli.options import AsJson, BrokerPort, DataDir, Port, settings_of, start_settings_of
from app.process.output import say_pairs
from app.process.startup import stoppable

demo = typer.Typer(invoke_without_command=True)


@demo.callback()
def demo_run(
    context: typer.Context,
    data_dir: DataDir = None,
    port: Port = None,
    broker_port: BrokerPort = None,
    once: Annotated[
        bool, typer.Option("--once", help="Stop after the verification instead of serving.")
    ] = False,
) -> None:
    """Start the service, verify a specimen passport, show what came of it, and keep serving.

    Beside it: two tenants, members of three roles, a published flow, a verification of every status, cases
    in the queue and webhooks, all of it test data. Another start shows the same and makes nothing again.

    Try:

      veristream demo

      veristream demo --port 9000 --once

      veristream demo reset
    """
    context.obj = data_dir
    if context.invoked_subcommand is not None:
        return
    from app.composition.engines import starting_chosen_forker

    settings = start_settings_of(data_dir, port=port, broker_port=broker_port)
    with starting_chosen_forker(settings) as forker:
        from app.demo.run import run_demo  # takes as long to import as the models to load

        asyncio.run(stoppable(run_demo(settings, forker, once=once)))


@demo.command("reset")
def demo_reset(
    context: typer.Context,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """End the demonstration's keys, members and webhook endpoint; the next one begins anew.

    Its verifications and audit rows stay, under tenants nobody can reach any more. Nothing else in the data
    folder is touched; without a demonstration nothing is done.

    Try:

      veristream demo reset

      veristream demo reset --json
    """
    from app.demo.access import reset

    say_pairs(asyncio.run(reset(settings_of(data_dir or context.obj))), as_json=as_json)
