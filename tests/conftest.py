"""What every test may ask for."""

pytest_plugins = ["tests.engines.fixtures", "tests.contracts.fixtures"]
