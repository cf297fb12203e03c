"""A front over memory stores as a process of its own, for testers that speak to it from outside."""

import asyncio
import json
import sys

from pydantic import SecretStr

from app.observability.logging import configure_logging
from app.process.startup import until_told_to_stop
from streams.catalog.handler import Catalogue
from tests.http.session_steps import open_page, publish_flow
from tests.http.support import TEST, build_body, now, open_front

TOKEN = "operator-token-of-thirty-two-characters"  # noqa: S105 - a test's own

PEOPLE = 400
"""Members with a session each, for a tester that may end a session with any request."""


async def serve() -> None:
    """Say where it is and who may ask, then serve until asked to stop."""
    configure_logging("json", "error", sys.stderr)
    async with open_front(operator_token=SecretStr(TOKEN)) as front:
        await Catalogue(front.stores.records, front.ports.commit, now).install_first()
        cookies = [(await front.sign_in()).cookie for _ in range(PEOPLE)]
        await front.submit(build_body("sim:review:FACE_MATCH_UNCERTAIN"), TEST)
        page = await open_page(front, await publish_flow(await front.sign_in()))
        await page.consent()
        capture = page.opened["client_token"]
        said = {"url": front.url, "key": TEST, "cookies": cookies, "operator": TOKEN, "capture": capture}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()
        await until_told_to_stop()


if __name__ == "__main__":
    asyncio.run(serve())
