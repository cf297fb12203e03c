"""The demonstration's own receiver of webhooks, registered for as long as the demonstration runs."""

import asyncio
import base64
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout

from app.console import out
from app.startup import CannotStart
from app.webhook_receiver import Heard, open_receiver
from schemas.events import EventType
from streams.webhooks.signing import PREFIX, secret_bytes

PATH: Final = "/v1/webhooks/endpoints"
DESCRIPTION: Final = "veristream demo"
"""By it a demonstration knows the endpoints of earlier ones that were killed."""

WAIT_S: Final = 15.0
"""How long the demonstration waits for its webhook; a healthy service takes milliseconds."""


class Inbox:
    """What the receiver got."""

    def __init__(self) -> None:
        self._arrived: asyncio.Queue[Heard] = asyncio.Queue()
        self.tells = False
        """Whether what arrives is printed at once instead of kept."""

    def take(self, heard: Heard) -> None:
        """Keep one delivery, or print it."""
        if self.tells:
            out.print(f"webhook: {heard.as_line()}", markup=False, highlight=False, soft_wrap=True)
        else:
            self._arrived.put_nowait(heard)

    async def about(self, verification_id: str) -> Heard:
        """Wait for the webhook about a verification.

        Raises:
            CannotStart: None came in time.
        """
        try:
            async with asyncio.timeout(WAIT_S):
                while (heard := await self._arrived.get()).data.get("verification_id") != verification_id:
                    pass
        except TimeoutError:
            raise CannotStart("the webhook did not arrive; see: veristream doctor") from None
        return heard


@asynccontextmanager
async def receiving_webhooks(url: str, key: str) -> AsyncIterator[Inbox]:
    """Register a receiver on this machine with the service at `url`; its endpoint is deleted at the end.

    Raises:
        CannotStart: The endpoint is refused.
    """
    inbox, secret = Inbox(), PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        open_receiver(secret_bytes(secret), inbox.take) as address,
        ClientSession(url, headers=headers, timeout=ClientTimeout(total=30)) as client,
    ):
        for endpoint in (await _told(await client.get(PATH, params={"limit": "100"})))["endpoints"]:
            if endpoint.get("description") == DESCRIPTION:
                await client.delete(f"{PATH}/{endpoint['endpoint_id']}")
        wish = {
            "url": address,
            "secret": secret,
            "event_types": [EventType.VERIFICATION_COMPLETED],
            "description": DESCRIPTION,
        }
        made = await _told(await client.post(PATH, json=wish))
        try:
            yield inbox
        finally:
            with suppress(ClientError, TimeoutError):  # the next demonstration finds what is left
                await client.delete(f"{PATH}/{made['endpoint_id']}")


async def _told(answer: ClientResponse) -> dict[str, Any]:
    told: dict[str, Any] = await answer.json(content_type=None)
    if not answer.ok:
        raise CannotStart(f"the demonstration's webhook was refused: {told.get('detail')}")
    return told
