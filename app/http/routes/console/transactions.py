"""`/console/transactions`, `/console/transactions/{id}`: the list, newest first, and one decision."""

from dataclasses import dataclass
from typing import Final

from aiohttp import web

from app.http.case_matches import found_by_transaction
from app.http.case_view import title_of
from app.http.console import HOME, Console, ask, console_page, filters_of
from app.http.endpoints import Call, Endpoint
from app.http.routes.transactions import PATH as TRANSACTIONS
from app.http.routes.transactions import TRANSACTION_FORM
from schemas.enums import DecisionOutcome, RiskLevel
from schemas.transactions import OutcomeClass, TransactionType

PATH: Final = f"{HOME}/transactions"
WORDS: Final = {
    "decision": [*DecisionOutcome],
    "outcome": [*OutcomeClass],
    "type": [*TransactionType],
    "risk_level": [*RiskLevel],
}
"""The filters that take one word of a list."""

DAYS: Final[tuple[str, ...]] = ("from", "to")


@dataclass(frozen=True, slots=True)
class TransactionPages:
    """Draws the list, and one transaction."""

    console: Console

    async def show_list(self, call: Call) -> web.Response:
        """Answer a page of transactions."""
        given, query = filters_of(call, "subject_id", "reference", *WORDS, *DAYS)
        starts = {name: f"{query[name]}T00:00:00Z" for name in DAYS if name in query}
        listed = await ask(call, TRANSACTIONS, {**query, **starts})
        return await self.console.show(
            call,
            "transactions.html",
            place="review",
            at="transactions",
            given=given,
            words=WORDS,
            rows=listed["transactions"],
            following=listed["next_cursor"],
            title_of=title_of,
        )

    async def show(self, call: Call) -> web.Response:
        """Answer one transaction as it stands."""
        transaction = await ask(call, f"{TRANSACTIONS}/{call.path_value('transaction_id')}")
        return await self.console.show(
            call,
            "transaction.html",
            place="review",
            livemode=transaction["livemode"],
            transaction=transaction,
            found=found_by_transaction(transaction),
            title_of=title_of,
        )


def transaction_page_endpoints(pages: TransactionPages) -> tuple[Endpoint, ...]:
    """Return the routes as data."""
    one = {"transaction_id": TRANSACTION_FORM}
    return (
        console_page(PATH, pages.show_list, "Show the list of transactions"),
        console_page(f"{PATH}/{{transaction_id}}", pages.show, "Show a transaction", one),
    )
