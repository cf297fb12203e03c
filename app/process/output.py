"""Print results for a person (tables, progress) or a program (`--json`)."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.markup import escape
from rich.table import Table

out = Console()
"""Results."""

err = Console(stderr=True)
"""Progress and errors; never mixed into results."""


def say_error(message: str) -> None:
    """Print an error to stderr."""
    err.print(f"[bold red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)


def say_warning(message: str) -> None:
    """Print a warning to stderr."""
    err.print(f"warning: {message}", markup=False, highlight=False, soft_wrap=True)


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
        out.print(f"{name:<{width}}  [bold]{_in_words(value)}[/]", highlight=False, soft_wrap=True)


def _in_words(value: object) -> object:
    if isinstance(value, Mapping):
        value = [f"{name}: {one}" for name, one in value.items()]
    return (", ".join(map(str, value)) or "none") if isinstance(value, list) else value


def say_rows(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a heading and rows as plain aligned text, one line each, so that other tools can cut them."""
    cells = [[("" if cell is None else str(cell)) for cell in row] for row in (columns, *rows)]
    widths = [max(cell_len(row[place]) for row in cells) for place in range(len(columns))]
    for row in cells:
        padded = (set_cell_size(cell, width) for cell, width in zip(row, widths, strict=True))
        out.print("  ".join(padded).rstrip(), markup=False, highlight=False, soft_wrap=True)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    """Return a table for a person."""
    drawn = Table(title=title, title_justify="left", header_style="bold", expand=False)
    for column in columns:
        drawn.add_column(column, overflow="fold")
    for row in rows:
        drawn.add_row(*("" if cell is None else str(cell) for cell in row))
    return drawn
