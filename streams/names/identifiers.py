"""Numbers of documents and registries, in the form in which they are compared."""

import unicodedata
from typing import Final

_LEAST_CHARS: Final = 5
"""Shorter numbers are shared by chance."""


def normal_identifier(value: str) -> str:
    """Return letters and digits only, in upper case; empty when too few to identify anybody."""
    plain = "".join(char for char in unicodedata.normalize("NFKC", value).upper() if char.isalnum())
    return plain if len(plain) >= _LEAST_CHARS and any(char.isdigit() for char in plain) else ""
