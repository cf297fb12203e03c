"""Collect what is wrong with a policy's text, each with its place (G111)."""

from collections.abc import Iterable
from typing import Final

from rapidfuzz import fuzz, process

from schemas.policies import PolicyFault
from schemas.problems import FieldProblem, ProblemCode, Refused
from streams.policies.reading.nodes import Node

MOST_PROBLEMS: Final = 100
_MOST_SHOWN_CHARS: Final = 64
_NEAR: Final = 60.0
"""Likeness, of 100, from which a known word is suggested."""


class Problems:
    """The problems of one text, in the order in which they were found."""

    def __init__(self) -> None:
        self._found: list[FieldProblem] = []

    def add(self, fault: PolicyFault, node: Node, message: str) -> None:
        """Record a problem at the first character of the node."""
        self._found.append(problem_at(fault, node.pointer, node.line, node.column, message))

    def unknown(self, fault: PolicyFault, node: Node, what: str, word: str, known: Iterable[str]) -> None:
        """Record a word that is none of the known ones, and name the nearest."""
        self.add(fault, node, f"{show(word)} is no {what}.{nearest(word, known)}")

    def __bool__(self) -> bool:
        """Return whether anything was found."""
        return bool(self._found)

    def refusal(self) -> Refused:
        """Return the error with all problems, in the order of the text."""
        return refused(self._found)


def problem_at(fault: PolicyFault, pointer: str, line: int, column: int, message: str) -> FieldProblem:
    """Return a problem at a place of the text."""
    return FieldProblem(
        code=ProblemCode.POLICY_INVALID,
        message=message,
        pointer=pointer,
        rule=fault,
        line=line,
        column=column,
    )


def refused(found: list[FieldProblem]) -> Refused:
    """Return the error with the first problems of the text, at most `MOST_PROBLEMS`."""
    ordered = sorted(found, key=lambda problem: (problem.line or 0, problem.column or 0))
    count = len(ordered)
    detail = "The policy has an error." if count == 1 else f"The policy has {count} errors."
    return Refused.because(ProblemCode.POLICY_INVALID, detail, *ordered[:MOST_PROBLEMS])


def show(word: object) -> str:
    """Return a word of the text as it may stand in a message: quoted and short."""
    text = str(word)
    shown = "".join(character if character.isprintable() else "?" for character in text[:_MOST_SHOWN_CHARS])
    return f"`{shown}…`" if len(text) > _MOST_SHOWN_CHARS else f"`{shown}`"


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a sentence that names the known word most like this one; empty when none is like it."""
    words = [str(one) for one in known]
    short = word[:_MOST_SHOWN_CHARS]
    found = process.extractOne(short, words, scorer=fuzz.ratio, processor=str.lower, score_cutoff=_NEAR)
    return f" Did you mean `{found[0]}`?" if found else ""
