"""Makes a process that is started end with the process that starts it, however that one ends."""

import shutil


def tied() -> list[str]:
    """Return what goes before its command line: setpriv of util-linux, nothing where it is absent."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []
