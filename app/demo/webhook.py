"""Webhook receiver that runs with the demonstration."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from aiohttp import ClientError

from app.demo.access import DemoAccess, keep_access
from app.demo.client import Client
from app.demo.receiver import Heard, open_receiver
from app.process.output import out
from app.process.startup import CannotStart
from app.settings import Settings
from schemas.events import EventType
from streams.webhooks.signing import secret_bytes

PATH: Final = "/v1/webhooks/endpoints"
DESCRIPTION: Final = "veristream demo"


class Inbox:
    """Deliveries that the receiver got."""

    def __init__(self) -> None:
        self.faults: set[str] = set()
        """Why signatures did not fit."""
        self.prints = False
        """Whether what arrives is printed at once."""

    def take(self, heard: Heard) -> None:
        """Note one delivery, or print it."""
        if heard.fault is not None:
            self.faults.add(heard.fault)
        if self.prints:
            out.print(f"webhook: {heard.as_line()}", markup=False, highlight=False, soft_wrap=True)


@asynccontextmanager
async def receiving_webhooks(
    settings: Settings, client: Client, access: DemoAccess
) -> AsyncIterator[tuple[Inbox, DemoAccess]]:
    """Receive webhooks on this machine: register the endpoint once, and deactivate it at the end.

    Raises:
        CannotStart: The endpoint is refused.
    """
    inbox = Inbox()
    async with open_receiver(secret_bytes(access.webhook_secret), inbox.take) as address:
        if access.endpoint_id is None:
            access = await _register(client, access, address)
            await asyncio.to_thread(keep_access, settings, access)
        else:
            changes = {"url": address, "active": True}
            await client.request("PATCH", f"{PATH}/{access.endpoint_id}", changes)
        try:
            yield inbox, access
        finally:
            with suppress(ClientError, TimeoutError, CannotStart):  # the service may be gone already
                await client.request("PATCH", f"{PATH}/{access.endpoint_id}", {"active": False})


async def _register(client: Client, access: DemoAccess, address: str) -> DemoAccess:
    body = {
        "url": address,
        "secret": access.webhook_secret,
        "event_types": [EventType.VERIFICATION_COMPLETED],
        "description": DESCRIPTION,
    }
    made = await client.request("POST", PATH, body)
    return access.model_copy(update={"endpoint_id": made["endpoint_id"]})
