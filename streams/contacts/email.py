"""Examine an e-mail address by its syntax and its domain; nothing is looked up over a network (G127)."""

from collections.abc import Container
from typing import Final

from disposable_email_domains import blocklist
from email_validator import EmailNotValidError, validate_email

from schemas.reasons import ReasonCode
from streams.contacts.findings import ContactDetail

DISPOSABLE_DOMAINS: Final = frozenset(blocklist)
"""Domains that give out throw-away addresses, in ASCII and lower case; the package is renewed every week."""

_ROLES: Final = """
abuse admin administrator billing contact enquiries finance ftp hello help helpdesk hostmaster hr info
inquiries it jobs legal mail marketing news noc no-reply noreply office postmaster press privacy root
sales security service support sysadmin team usenet uucp webmaster www
"""

ROLES: Final = frozenset(_ROLES.split())
"""Names of roles before the @: those of RFC 2142, and what companies use beside them."""


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
