"""`/console/review-cases`: the cases that wait for a person."""

from dataclasses import dataclass

from aiohttp import web

from app.http.console import HOME, Console, ask, console_page, is_live
from app.http.endpoints import Call, Endpoint

PATH = f"{HOME}/review-cases"


@dataclass(frozen=True, slots=True)
class QueuePages:
    """Draws the queue."""

    console: Console

    async def show(self, call: Call) -> web.Response:
        """Answer the cases that wait."""
        livemode = "true" if is_live(call) else "false"
        listed = await ask(call, "/v1/control/review-cases", {"livemode": livemode})
        return await self.console.show(call, "queue.html", place="review", cases=listed["review_cases"])


def queue_endpoints(pages: QueuePages) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    return (console_page(PATH, pages.show, "Show the queue of review cases"),)
