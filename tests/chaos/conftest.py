"""The engines of the fault tests."""

from pathlib import Path

import pytest

from tests.chaos.fleet import Embedded, Profile


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    """The embedded engines, in a folder of their own."""
    return Embedded(tmp_path)
