"""Execute the commands about an endpoint's deliveries."""

from dataclasses import dataclass

from schemas.webhooks import Deliver, DeliveryCommand, NoteAttempt, ReplayEvents
from streams.webhooks.health import UpdateHealth
from streams.webhooks.ports import Offer
from streams.webhooks.replay import DeliverAgain


@dataclass(frozen=True, slots=True)
class HandleDelivery:
    """Execute each command about an endpoint's deliveries, without waiting for a receiver."""

    offer: Offer
    update_health: UpdateHealth
    deliver_again: DeliverAgain

    async def __call__(self, command: DeliveryCommand) -> None:
        """Execute the command; executing it twice changes nothing more.

        Raises:
            StoreUnavailable: The outcome is unknown; the same command may be sent again.
        """
        match command.root:
            case Deliver() as deliver:
                self.offer(deliver)
            case NoteAttempt() as note:
                await self.update_health(note)
            case ReplayEvents() as replay:
                await self.deliver_again(replay)
