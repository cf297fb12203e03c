"""How the commands speak to a person (tables, progress) or to a program (`--json`)."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

out = Console()
"""Results."""

err = Console(stderr=True)
"""Progress and errors; never mixed into results."""


def say_error(message: str) -> None:
    """Say what is wrong, on stderr."""
    err.print(f"[bold red]error:[/] {message}", highlight=False, soft_wrap=True)


def say_json(value: object) -> None:
    """Print one JSON document on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def say_pairs(pairs: Mapping[str, Any], *, as_json: bool) -> None:
    """Print named values, for a person or a program."""
    if as_json:
        say_json(dict(pairs))
        return
    width = max(map(len, pairs))
    for name, value in pairs.items():
        out.print(f"{name:<{width}}  [bold]{value}[/]", highlight=False, soft_wrap=True)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Return a table for a person."""
    drawn = Table(title=title, title_justify="left", header_style="bold", expand=False)
    for column in columns:
        drawn.add_column(column, overflow="fold")
    for row in rows:
        drawn.add_row(*("" if cell is None else str(cell) for cell in row))
    return drawn
