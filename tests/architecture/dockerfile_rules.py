"""What the Dockerfile must hold, over a small strict reader: a line it does not understand is refused."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

_PINNED: Final = re.compile(r"[a-z0-9./-]+:\d+\.\d+\.\d+[a-z0-9.-]*(@sha256:[0-9a-f]{64})?( AS [a-z]+)?")
_KNOWN: Final = frozenset(
    {
        "FROM", "RUN", "COPY", "ADD", "ENV", "ARG", "LABEL", "USER", "WORKDIR", "STOPSIGNAL", "EXPOSE",
        "ENTRYPOINT", "CMD", "HEALTHCHECK", "VOLUME", "SHELL",
    }
)  # fmt: skip


class Instruction(NamedTuple):
    """One instruction, its continued lines joined."""

    word: str
    rest: str


class NotUnderstood(Exception):
    """A line that is no instruction the reader knows."""


def read_dockerfile(text: str) -> tuple[Instruction, ...]:
    """Return the instructions in order; comments are left out.

    Raises:
        NotUnderstood: A line begins with no known instruction, or the file ends in the middle of one.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    if joined.endswith("\\"):
        raise NotUnderstood(joined[-40:])
    found = [Instruction(*line.split(maxsplit=1)) for line in joined.splitlines() if " " in line]
    outsiders = [i.word for i in found if i.word not in _KNOWN]
    if outsiders or len(found) != len(joined.splitlines()) or not found or found[0].word != "FROM":
        raise NotUnderstood(", ".join(outsiders) or joined[:40])
    return tuple(found)


def of(instructions: Sequence[Instruction], word: str) -> list[str]:
    """Return what follows each instruction of a kind."""
    return [i.rest for i in instructions if i.word == word]


def last_stage(instructions: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Return the instructions that make the image."""
    begins = max(number for number, i in enumerate(instructions) if i.word == "FROM")
    return tuple(instructions[begins:])


def bases_are_pinned(instructions: Sequence[Instruction]) -> str | None:
    """Every stage begins with an exact version."""
    loose = [base for base in of(instructions, "FROM") if not _PINNED.fullmatch(base)]
    return f"not pinned: {loose}" if loose else None


def it_ends_as_nobody(instructions: Sequence[Instruction]) -> str | None:
    """The image runs under a number that is not root's."""
    users = of(last_stage(instructions), "USER")
    return None if users and re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1]) else f"USER {users}"


def nothing_is_fetched(instructions: Sequence[Instruction]) -> str | None:
    """No `ADD`, `curl` or `wget`: all that is fetched has a hash in the lock."""
    if of(instructions, "ADD"):
        return "ADD"
    fetching = [run for run in of(instructions, "RUN") if re.search(r"\b(curl|wget|git clone)\b", run)]
    return f"fetches: {fetching}" if fetching else None


def packages_have_hashes(instructions: Sequence[Instruction]) -> str | None:
    """Packages are installed with hashes required, or the project's own folder without dependencies."""
    for run in of(instructions, "RUN"):
        for step in re.split(r"&&|;", run):
            if "pip install" in step and not re.search(r"--require-hashes -r \S+|--no-deps \.(\s|$)", step):
                return step.strip()
    return None


def no_compiler_is_in_the_image(instructions: Sequence[Instruction]) -> str | None:
    """What builds stays in the stage that builds: the image installs nothing."""
    runs = of(last_stage(instructions), "RUN")
    installing = [run for run in runs if re.search(r"\b(apt-get|apt|apk|pip|gcc|make)\b", run)]
    return f"installs: {installing}" if installing else None


def it_starts_the_program(instructions: Sequence[Instruction]) -> str | None:
    """The program is the first process, without a shell between it and its signals."""
    given = of(instructions, "ENTRYPOINT")
    return None if len(given) == 1 and given[0] == json.dumps(["veristream"]) else f"ENTRYPOINT {given}"


def no_secret_is_baked_in(instructions: Sequence[Instruction]) -> str | None:
    """Nothing secret is in a layer or in an argument of the build."""
    text = " ".join(of(instructions, "ENV") + of(instructions, "ARG"))
    found = re.findall(r"\w*(?:PASSWORD|SECRET|TOKEN|ROOT_KEY)\w*", text)
    return f"names {found}" if found else None


def health_is_asked_elsewhere(instructions: Sequence[Instruction]) -> str | None:
    """Front, worker and one-shot commands are well in different ways; the image has no check of its own."""
    return "HEALTHCHECK" if of(instructions, "HEALTHCHECK") else None


DOCKERFILE_RULES: Final[tuple[Callable[[Sequence[Instruction]], str | None], ...]] = (
    bases_are_pinned, it_ends_as_nobody, nothing_is_fetched, packages_have_hashes,
    no_compiler_is_in_the_image, it_starts_the_program, no_secret_is_baked_in, health_is_asked_elsewhere,
)  # fmt: skip
