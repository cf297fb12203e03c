"""Examine a telephone number and an e-mail address; nothing is looked up over a network (G127)."""

from collections.abc import Container
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import phonenumbers
from disposable_email_domains import blocklist
from email_validator import EmailNotValidError, validate_email
from phonenumbers import NumberParseException, PhoneNumberFormat, PhoneNumberType

from schemas.reasons import ReasonCode

SHARED_BY: Final = 3
"""So many other subjects of the mode with the same detail make it a shared one."""

SHARED_WINDOW: Final = timedelta(days=90)
"""How long a subject's use of a detail counts."""

_FINDING_OF_TYPE = {
    PhoneNumberType.VOIP: ReasonCode.PHONE_VOIP,
    PhoneNumberType.PREMIUM_RATE: ReasonCode.PHONE_PREMIUM,
}

DISPOSABLE_DOMAINS: Final = frozenset(blocklist)
"""Domains that give out throw-away addresses, in ASCII and lower case; the package is renewed every week."""

_ROLES: Final = """
abuse admin administrator billing contact enquiries finance ftp hello help helpdesk hostmaster hr info
inquiries it jobs legal mail marketing news noc no-reply noreply office postmaster press privacy root
sales security service support sysadmin team usenet uucp webmaster www
"""

ROLES: Final = frozenset(_ROLES.split())
"""Names of roles before the @: those of RFC 2142, and what companies use beside them."""


@dataclass(frozen=True, slots=True)
class ContactDetail:
    """What was found about one detail; no findings: it is clear."""

    findings: tuple[ReasonCode, ...] = ()
    normalized: str | None = None
    """The form in which two spellings of one detail are equal; None when the detail is not valid.

    Personal data: it is hashed with a key before it is stored or compared.
    """


def shared(detail: ContactDetail, other_subjects: int, finding: ReasonCode) -> ContactDetail:
    """Add `finding` to a detail that so many other subjects used within `SHARED_WINDOW`."""
    if other_subjects < SHARED_BY:
        return detail
    return replace(detail, findings=(*detail.findings, finding))


def examine_phone(number: str, country: str | None) -> ContactDetail:
    """Examine a number in E.164 form, or in the national form of `country` (ISO 3166-1 alpha-2).

    The country of a number that belongs to none, such as a satellite telephone's, contradicts nothing.
    """
    try:
        parsed = phonenumbers.parse(number, country)
    except NumberParseException:
        return ContactDetail((ReasonCode.PHONE_INVALID,))
    if not phonenumbers.is_valid_number(parsed):
        return ContactDetail((ReasonCode.PHONE_INVALID,))
    findings = []
    kind = _FINDING_OF_TYPE.get(phonenumbers.number_type(parsed))
    if kind is not None:
        findings.append(kind)
    if country is not None and _is_of_another(parsed, country):
        findings.append(ReasonCode.PHONE_COUNTRY_MISMATCH)
    return ContactDetail(tuple(findings), phonenumbers.format_number(parsed, PhoneNumberFormat.E164))


def _is_of_another(number: phonenumbers.PhoneNumber, country: str) -> bool:
    of_none = phonenumbers.region_code_for_number(number) in {
        None,
        phonenumbers.REGION_CODE_FOR_NON_GEO_ENTITY,
    }
    return not of_none and not phonenumbers.is_valid_number_for_region(number, country)


def examine_email(address: str, disposable: Container[str] = DISPOSABLE_DOMAINS) -> ContactDetail:
    """Examine an address by the syntax and lengths of RFC 5321 and RFC 6531.

    Two spellings are one address when they differ in case, in what follows a `+` behind a mailbox, or in how
    the domain is written. A domain is disposable when it or a domain above it is in `disposable`.
    """
    try:
        valid = validate_email(address, check_deliverability=False, strict=True)
    except EmailNotValidError:
        return ContactDetail((ReasonCode.EMAIL_INVALID,))
    mailbox, domain = _without_tag(valid.local_part.casefold()), valid.ascii_domain.lower()
    findings = []
    if _is_listed(domain, disposable):
        findings.append(ReasonCode.EMAIL_DISPOSABLE)
    if mailbox in ROLES:
        findings.append(ReasonCode.EMAIL_ROLE)
    return ContactDetail(tuple(findings), f"{mailbox}@{domain}")


def _without_tag(local_part: str) -> str:
    mailbox = local_part.partition("+")[0]
    return local_part if mailbox.endswith(".") or not mailbox else mailbox


def _is_listed(domain: str, disposable: Container[str]) -> bool:
    labels = domain.split(".")
    return any(".".join(labels[start:]) in disposable for start in range(len(labels) - 1))
