"""What every test may ask for."""

from hypothesis import settings

pytest_plugins = [
    "tests.bytecode",
    "tests.gc_freeze",
    "tests.xdist_scheduler",
    "tests.engines.fixtures",
    "tests.browser.fixtures",
    "tests.contracts.fixtures",
]

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
