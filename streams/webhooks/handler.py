"""The use cases of deliveries: the endpoint's actor takes each wish about what is sent to it."""

from collections.abc import Callable
from dataclasses import dataclass

from schemas.webhooks import Deliver, DeliveryCommand, NoteAttempt, ReplayEvents
from streams.webhooks.health import UpdateHealth
from streams.webhooks.replay import DeliverAgain

Offer = Callable[[Deliver], bool]
"""Takes a delivery whose turn will come; False: there is no room, and a sweep brings it again."""


@dataclass(frozen=True, slots=True)
class HandleDelivery:
    """Carries out every wish about an endpoint's deliveries; none of them waits for a receiver."""

    offer: Offer
    update_health: UpdateHealth
    deliver_again: DeliverAgain

    async def __call__(self, command: DeliveryCommand) -> None:
        """Carry it out; given twice it changes nothing more.

        Raises:
            StoreUnavailable: Nothing is known; the same wish may be given again.
        """
        match command.root:
            case Deliver() as deliver:
                self.offer(deliver)
            case NoteAttempt() as note:
                await self.update_health(note)
            case ReplayEvents() as replay:
                await self.deliver_again(replay)
