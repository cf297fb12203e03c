"""Examine a telephone number by the numbering plans of the world, without a look-up over a network (G127)."""

import phonenumbers
from phonenumbers import NumberParseException, PhoneNumberFormat, PhoneNumberType

from schemas.reasons import ReasonCode
from streams.contacts.findings import ContactDetail

_FINDING_OF_TYPE = {
    PhoneNumberType.VOIP: ReasonCode.PHONE_VOIP,
    PhoneNumberType.PREMIUM_RATE: ReasonCode.PHONE_PREMIUM,
}


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
