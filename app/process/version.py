"""The version of the installed package."""

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    """Return the version, or `unknown` in a source tree that was never installed."""
    try:
        return version("veristream")
    except PackageNotFoundError:
        return "unknown"
