"""Check telephone numbers, e-mail and postal addresses of the parties, and who else used them (G127)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from schemas.enums import CheckKind
from schemas.ids import derive_id
from schemas.policy_documents import Check
from schemas.reasons import ReasonCode
from schemas.tenant_lists import DISPOSABLE_DOMAINS
from schemas.transaction_decisions import CheckOutcome, ScreenedTarget, ShownCheck
from schemas.transactions import Party, TransactionRequest
from streams.contacts.address import examine_address
from streams.contacts.details import (
    SHARED_BY,
    SHARED_WINDOW,
    ContactDetail,
    examine_email,
    examine_phone,
    shared,
)
from streams.ports.records import BY_AGE, Position, Record, RecordKind, Records
from streams.transactions.checks import CheckContext
from streams.transactions.keyed_hashes import KeyedHashes
from streams.transactions.records import standing_id
from streams.verification.records import Index, mode

_PAGE: Final = 100

_EXAMINE: Final[dict[CheckKind, Callable[[Party], ContactDetail]]] = {
    CheckKind.PHONE: lambda party: examine_phone(party.phone or "", party.country),
    CheckKind.EMAIL: lambda party: examine_email(party.email or ""),
    CheckKind.ADDRESS: lambda party: examine_address(party.address or "", party.country),
}

CONTACT_CHECKS: Final = tuple(_EXAMINE)

_SHARED: Final = {CheckKind.PHONE: ReasonCode.PHONE_SHARED, CheckKind.EMAIL: ReasonCode.EMAIL_SHARED}
"""The contacts that several subjects hardly ever have in common, unlike an address."""


@dataclass(frozen=True, slots=True)
class ContactChecks:
    """Carries out PHONE, EMAIL and ADDRESS; nothing is looked up over a network."""

    records: Records
    hashes: KeyedHashes

    async def __call__(
        self, check: Check, target: ScreenedTarget, party: Party, context: CheckContext
    ) -> ShownCheck:
        """Return the findings about a party's contact: CLEAR without any, MATCH with one that counts.

        Raises:
            StoreUnavailable: Who else used the contact could not be read.
        """
        detail = _examine(check.check, party, context)
        if check.check in _SHARED and detail.normalized is not None:
            others = await self._other_subjects(check.check, detail.normalized, context)
            detail = shared(detail, others, _SHARED[check.check])
        counted = [finding for finding in detail.findings if not check.findings or finding in check.findings]
        result = CheckOutcome.MATCH if counted else CheckOutcome.CLEAR
        return ShownCheck(check=check.check, target=target, result=result, findings=detail.findings)

    async def _other_subjects(self, kind: CheckKind, value: str, context: CheckContext) -> int:
        """Count the other subjects that used the contact lately, up to `SHARED_BY`."""
        own, others = standing_id(context.subject_key), set[bytes]()
        index, before = _by_contact(self._name(context, kind, value)), None
        while len(others) < SHARED_BY:
            page = await self.records.page(
                context.tenant_id, RecordKind.CONTACT_USE, index, limit=_PAGE, before=before
            )
            recent = [use for use in page if use.created_at > context.at - SHARED_WINDOW]
            others |= {use.body for use in recent if use.body != own.encode()}
            if len(recent) < _PAGE:
                break
            before = Position(recent[-1].created_at, recent[-1].id)
        return len(others)

    def uses_of(self, request: TransactionRequest, context: CheckContext) -> Iterator[Record]:
        """Yield a record of each contact that the transaction names: one a subject, contact and day."""
        own = standing_id(context.subject_key)
        for kind, value in sorted(_contacts_of(request)):
            name = self._name(context, kind, value)
            yield Record(
                context.tenant_id,
                RecordKind.CONTACT_USE,
                derive_id("cu", name, own, context.at.date().isoformat()),
                own.encode(),
                context.at,
                indexes=(_by_contact(name), BY_AGE),
            )

    def _name(self, context: CheckContext, kind: CheckKind, value: str) -> str:
        """Return the hash by which a contact is known within the mode; it names nobody."""
        hashed = self.hashes.of(context.tenant_id, f"{kind}|{mode(context.livemode)}", value)
        return f"{mode(context.livemode)}|{hashed.hex()}"


def _examine(kind: CheckKind, party: Party, context: CheckContext) -> ContactDetail:
    """Return what a contact looks like; a tenant's own list of disposable domains replaces ours."""
    own = None if context.lists is None else context.lists.values.get(DISPOSABLE_DOMAINS)
    if kind is CheckKind.EMAIL and own is not None:
        return examine_email(party.email or "", own.at(context.at))
    return _EXAMINE[kind](party)


def _contacts_of(request: TransactionRequest) -> set[tuple[CheckKind, str]]:
    parties = [party for party in (request.subject, request.counterparty) if party is not None]
    examined = [
        *(
            (CheckKind.PHONE, _EXAMINE[CheckKind.PHONE](party))
            for party in parties
            if party.phone is not None
        ),
        *(
            (CheckKind.EMAIL, _EXAMINE[CheckKind.EMAIL](party))
            for party in parties
            if party.email is not None
        ),
    ]
    return {(kind, detail.normalized) for kind, detail in examined if detail.normalized is not None}


def _by_contact(name: str) -> Index:
    return "contact", name
