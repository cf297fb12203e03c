"""The command `veristream`, assembled from the commands of the other modules.

Those import what takes seconds to load inside the functions that need it, so `--help` does not wait for it.
"""

import typer

from app.cli.backup import activate, backups, restore
from app.cli.broker_users import broker_users
from app.cli.calibrate import calibrate
from app.cli.demo import demo
from app.cli.doctor import audit, doctor, status
from app.cli.lists import key_list, reviewer_list, tenant_list
from app.cli.migrate import migrate
from app.cli.options import ShowVersion
from app.cli.policies import policies
from app.cli.reviewers import reviewers
from app.cli.roles import broker, dead_letters, front, up, worker
from app.cli.root_keys import root_keys
from app.cli.screening_lists import screening_lists
from app.cli.subjects import subjects
from app.cli.tenants import catalogue, keys, tenants
from app.cli.webhook_resend import webhook_resend
from app.cli.webhooks import sender_key, webhooks

app = typer.Typer(
    name="veristream",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=True,
    epilog="The documentation is in the folder app/docs of the package.",
)
tenants.command("list")(tenant_list)
keys.command("list")(key_list)
reviewers.command("list")(reviewer_list)
webhooks.command("resend")(webhook_resend)
app.add_typer(demo, name="demo")
app.add_typer(tenants, name="tenant")
app.add_typer(keys, name="key")
app.add_typer(reviewers, name="reviewer")
app.add_typer(screening_lists, name="lists")
app.add_typer(policies, name="policy")
app.add_typer(subjects, name="subject")
app.add_typer(webhooks, name="webhook")
app.add_typer(broker_users, name="broker-user")
app.add_typer(root_keys, name="root-key")
app.add_typer(audit, name="audit")
app.add_typer(backups, name="backup")
app.add_typer(catalogue, name="catalog")
app.add_typer(dead_letters, name="dlq")
for command in (sender_key, calibrate, status, restore, activate, up, broker, front, worker, migrate, doctor):
    app.command()(command)


@app.callback()
def veristream(version: ShowVersion = False) -> None:
    """Identity verification you run yourself. Start with [bold]veristream demo[/]."""
