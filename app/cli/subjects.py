"""The commands about subjects: the customers that tenants verify."""

import typer

subjects = typer.Typer(no_args_is_help=True, help="Subjects: the customers that tenants verify.")
