"""The fields of a transaction that the rules of a policy may read (G112); pure."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from schemas.policies import FieldValue
from schemas.transaction_decisions import CheckOutcome, ShownCheck
from schemas.transactions import Party, TransactionRequest

_OF_A_PARTY: Final = ("id", "kind", "name", "country", "account", "phone", "email", "wallet")


def fields_of(request: TransactionRequest, checks: Sequence[ShownCheck]) -> dict[str, FieldValue]:
    """Return what the request and the checks give, by the names of rules; what is absent is None."""
    base, at = request.base_amount, request.occurred_at
    fields: dict[str, FieldValue] = {
        "type": request.type,
        "direction": request.direction,
        "amount": request.amount.amount,
        "currency": request.amount.currency,
        "base_amount": None if base is None else base.amount,
        "base_currency": None if base is None else base.currency,
        "hour": at.hour,
        "weekday": at.isoweekday(),
        "reference": request.reference,
        "findings": _findings(checks),
        **_of_party("counterparty", request.counterparty),
        **_of_party("subject", request.subject),
        **_of_rest(request),
    }
    fields |= {f"checks.{check.check}.{check.target}": str(check.result) for check in checks}
    fields |= {f"metadata.{key}": _exact(value) for key, value in request.metadata.items()}
    return fields


def _findings(checks: Sequence[ShownCheck]) -> tuple[str, ...]:
    made = [check for check in checks if check.result is not CheckOutcome.ERROR]
    return tuple(dict.fromkeys(str(code) for check in made for code in check.findings))


def _of_party(name: str, party: Party | None) -> Mapping[str, FieldValue]:
    return {} if party is None else {f"{name}.{part}": getattr(party, part) for part in _OF_A_PARTY}


def _of_rest(request: TransactionRequest) -> dict[str, FieldValue]:
    fields: dict[str, FieldValue] = {}
    if request.wallet is not None:
        wallet = request.wallet
        fields |= {"wallet.chain": wallet.chain, "wallet.address": wallet.address, "wallet.role": wallet.role}
    if request.stream is not None:
        stream = request.stream
        elapsed = request.occurred_at - stream.started_at
        fields |= {
            "stream.sequence": stream.sequence,
            "stream.rate_per_minute": Decimal(stream.rate_per_minute),
            "stream.elapsed_s": elapsed.days * 86_400 + elapsed.seconds,
        }
    if request.device is not None:
        fields |= {"device.id": request.device.id, "device.ip": request.device.ip}
    return fields


def _exact(value: Any) -> FieldValue:
    """Return a value of the metadata; a fraction as the decimal that its shortest text says."""
    return Decimal(repr(value)) if isinstance(value, float) else value
