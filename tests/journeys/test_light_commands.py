"""Commands that need the stores alone import no model, no broker and no driver, so they start at once."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.journeys.service import begin_deployment

HEAVY = {
    "onnxruntime", "cv2", "rapidocr", "numpy", "PIL", "faust", "mode", "kio", "hypothesis", "aiokafka",
    "aiohttp", "cassandra", "matplotlib",
}  # fmt: skip
"""Packages that cost a command tenths of a second to seconds, and what it never uses."""

PROGRAM = """
import json, sys
from app.__main__ import main
try:
    main()
finally:
    imported = {name.partition(".")[0] for name in sys.modules}
    print(json.dumps(sorted(imported)), file=sys.stderr)
"""


async def imports(*arguments: str, program: str = PROGRAM) -> tuple[int, str, set[str]]:
    """Run a command in a process of its own: exit status, output, and what it imported."""
    pipe = asyncio.subprocess.PIPE
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, *arguments, stdout=pipe, stderr=pipe
    )
    out, err = await run.communicate()
    return run.returncode or 0, out.decode(), set(json.loads(err.decode().splitlines()[-1]))


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("up", "--help"), ("key", "create", "--help"), ("calibrate", "--help")],
    ids=" ".join,
)
async def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    status, said, imported = await imports(*arguments)

    assert (status, "Usage" in said) == (0, True)
    assert imported & HEAVY == set()


async def test_commands_over_the_stores_import_nothing_heavy(tmp_path: Path) -> None:
    begin_deployment(tmp_path)
    given = ("--data-dir", str(tmp_path), "--json")
    status, said, imported = await imports("tenant", "create", "Acme", *given)
    tenant = json.loads(said)["tenant_id"]
    result = {"tenant create": (status, imported & HEAVY)}
    member = ("--tenant", tenant, "--email", "ada@acme.example")
    for command in (
        ("key", "create", *member[:2]), ("reviewer", "create", *member), ("reviewer", "reset", *member),
        ("catalog", "load"), ("audit", "verify"), ("reviewer", "list"),
    ):  # fmt: skip
        status, _, imported = await imports(*command, *given)
        result[" ".join(command[:2])] = (status, imported & HEAVY)

    assert result == {command: (0, set()) for command in result}


async def test_a_forker_without_models_imports_no_library_that_reads_text() -> None:
    """A front decodes images only, and needs neither the memory nor the second it takes to load those."""
    program = "import json, sys, app.vision.fork_server; print(json.dumps([*sys.modules]), file=sys.stderr)"
    imported = await imports(program=program)

    assert (imported[0], imported[2] & {"rapidocr", "onnxruntime", "omegaconf"}) == (0, set())
