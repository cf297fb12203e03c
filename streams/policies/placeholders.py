"""The placeholders of a reason's message, such as `{amount}`; pure."""

import re
from typing import Final

PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
"""A placeholder; a brace that is none of them is an error of the policy."""


def names_in(message: str) -> list[str]:
    """Return the names of the placeholders, in their order."""
    return PLACEHOLDER.findall(message)
