"""Keeps the garbage collector away from what a test run collects: thousands of items and their modules.

A pytest plugin. Nothing of that is ever garbage, and every full collection would look through it again.
"""

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without collecting garbage, then leave what was made out of account."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
