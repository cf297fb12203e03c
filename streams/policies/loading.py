"""Load a policy: the bytes of a text to its document, or every error with its place (G111)."""

import hashlib
from functools import cache
from importlib.resources import files
from typing import Final

from schemas.policy_documents import PolicyDocument
from streams.policies.compiling import CompiledPolicy, compile_policy
from streams.policies.reading.document import read_document
from streams.policies.reading.parsing import parse
from streams.policies.reading.problems import Problems

FIRST_REVISION: Final = 1


def load(text: bytes, known_lists: frozenset[str] | None = None) -> PolicyDocument:
    """Return the policy of a YAML or JSON text, whose own tests passed.

    Args:
        text: The text, in UTF-8, or in UTF-16 with a byte order mark.
        known_lists: The lists it may name; None when they are not known, then any name will do.

    Raises:
        schemas.problems.Refused: `POLICY_INVALID`, with each error's rule, pointer, line and column.
    """
    problems = Problems()
    return read_document(parse(text, problems), problems, known_lists)


def digest(text: bytes) -> str:
    """Return the SHA-256 of a text as uploaded, hexadecimal."""
    return hashlib.sha256(text).hexdigest()


@cache
def first_text() -> bytes:
    """Return the text of revision 1 of every tenant (G131)."""
    return files("streams.policies").joinpath("first_policy.yaml").read_bytes()


@cache
def first_policy() -> CompiledPolicy:
    """Return revision 1 of every tenant, ready to evaluate (G131)."""
    text = first_text()
    return compile_policy(load(text), FIRST_REVISION, digest(text))
