"""SASL authentication of a connection, with delays after failures."""

import asyncio
from collections import OrderedDict
from datetime import datetime
from typing import Final

from app.broker.errors import SignInRefused
from app.broker.scram import Exchange, Mechanism, read_first
from app.broker.users import Access, Users

FIRST_DELAY_S: Final = 0.5
"""How long the first wrong password of an address waits for its answer; each further one twice as long."""

MAX_DELAY_S: Final = 8.0
"""Below the sign-in deadline, so that the answer still comes."""

FORGIVEN_AFTER_S: Final = 60.0
"""An address that made no mistake for so long begins anew."""

MAX_ADDRESSES: Final = 1000
"""Addresses whose mistakes are remembered; the oldest are forgotten."""


class Mistakes:
    """Counts wrong passwords by address. Right ones are never delayed, whatever others do there."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def count(self, address: str, now: float) -> float:
        """Note a mistake and return how many seconds its answer waits."""
        count, last = self._counts.pop(address, (0, now))
        if now - last > FORGIVEN_AFTER_S:
            count = 0
        self._counts[address] = (count + 1, now)
        if len(self._counts) > MAX_ADDRESSES:
            self._counts.popitem(last=False)
        return float(min(FIRST_DELAY_S * 2 ** min(count, 10), MAX_DELAY_S))


class SignIn:
    """One connection's sign-in; `access` is None until it is done."""

    def __init__(self, users: Users, mistakes: Mistakes, address: str) -> None:
        self._users = users
        self._mistakes = mistakes
        self._address = address
        self._mechanism: Mechanism | None = None
        self._exchange: Exchange | None = None
        self._name = ""
        self._made_at: datetime | None = None
        self.access: Access | None = None
        self.bare = False
        """Messages come without a request around them, as after version 0 of the handshake."""
        self.failed = False
        """The connection is to be closed once the answer is sent."""

    @property
    def outdated(self) -> bool:
        """Whether its user was deleted."""
        return self._users.made_at(self._name) != self._made_at

    @property
    def begun(self) -> bool:
        """Whether a mechanism is chosen."""
        return self._mechanism is not None

    def choose(self, mechanism: str) -> bool:
        """Take the mechanism; return whether it is supported."""
        try:
            self._mechanism = Mechanism(mechanism)
        except ValueError:
            return False
        return True

    def take(self, message: bytes) -> bytes:
        """Return the answer to the client's next message; after the last, `access` is there.

        Raises:
            SignInRefused: Wait for `delay`, answer with an error and close.
        """
        if self._mechanism is None:
            raise SignInRefused
        if self._exchange is None:
            first = read_first(message)
            self._users.refresh()
            self._name = first.name
            self._exchange = Exchange(self._mechanism, first, self._users.keys(first.name, self._mechanism))
            return self._exchange.challenge
        proof = self._exchange.prove(message)
        self._made_at = self._users.made_at(self._name)
        if self._made_at is None:
            raise SignInRefused  # nobody can prove the keys of a decoy; should anybody, there is no such user
        self.access = self._users.access(self._name)
        return proof

    async def delay(self) -> None:
        """Wait as long as this address has to after another mistake."""
        self.failed = True
        await asyncio.sleep(self._mistakes.count(self._address, asyncio.get_running_loop().time()))
