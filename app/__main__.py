"""Entry point of `veristream` and `python -m app`."""

import os
import resource
import sys

from app.adapters.files.data_dir import PRIVATE_UMASK
from app.cli.main import app
from app.process.output import say_error
from app.process.startup import CannotStart, collect_seldom
from app.settings import SettingsRefused
from schemas.problems import StoreUnavailable


def main() -> None:
    """Run the command line; a refused setting or start is one sentence on stderr and exit status 2.

    No process leaves a core dump, which would hold keys and images in the clear (S70).
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(PRIVATE_UMASK)  # libraries make files too
    collect_seldom()
    try:
        app()
    except (SettingsRefused, CannotStart, StoreUnavailable) as refusal:
        say_error(str(refusal))
        sys.exit(2)


if __name__ == "__main__":
    main()
