"""Compiles the modules once for all processes of a test run, which would each compile every one of them.

A pytest plugin. It matters in a fresh clone: six seconds of a processor for each process.
"""

import compileall
import os
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import pytest
from _pytest.assertion import rewrite
from _pytest.assertion.rewrite import assertstate_key

ROOT: Final = Path(__file__).parents[1]

PACKAGES: Final = ("app", "schemas", "streams", "tests")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Compile on all cores what is not compiled yet, before the processes of the run start."""
    if sys.dont_write_bytecode:
        return
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    cores = len(os.sched_getaffinity(0))
    context = get_context("fork")
    shares = [context.Process(target=_compile, args=(config, paths[core::cores])) for core in range(cores)]
    for share in shares:
        share.start()
    for share in shares:
        share.join()


def _compile(config: pytest.Config, paths: Sequence[Path]) -> None:
    """Leave the byte code where an import looks for it; pytest's own form of it for tests."""
    asserting = ("conftest.py", *config.getini("python_files"))
    for path in paths:
        compiled = rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
        if not any(fnmatch(path.name, pattern) for pattern in asserting):
            compileall.compile_file(path, quiet=2)
        elif not compiled.exists():  # pytest looks itself whether one is of this source
            compiled.parent.mkdir(exist_ok=True)
            digest, code = rewrite._rewrite_test(path, config)
            rewrite._write_pyc(config.stash[assertstate_key], code, digest, compiled)
