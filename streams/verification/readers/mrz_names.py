"""Names of people and of states as machine-readable zones write them (ICAO Doc 9303 part 3)."""

import re
import unicodedata
from typing import Final

from streams.verification.readers.likeness import latin

_TRANSLITERATIONS: Final = {
    "Ä": "AE",
    "Å": "AA",
    "Æ": "AE",
    "Ð": "D",
    "Đ": "D",
    "Ħ": "H",
    "Ĳ": "IJ",
    "Ł": "L",
    "Ŋ": "N",
    "Ö": "OE",
    "Ø": "OE",
    "Œ": "OE",
    "ẞ": "SS",
    "Þ": "TH",
    "Ŧ": "T",
    "Ü": "UE",
}
"""Part 3 section 6.A, where it is more than dropping a mark."""
_SHORTENED: Final = 3
"""Letters left of a name that is cut in the middle of the field."""
_NOT_LETTERS: Final = re.compile(r"[^A-Z]+")
_DROPPED: Final = re.compile("['`.\u2019\u00b4]")
"""Apostrophes and full stops disappear (section 4.6), anything else between letters becomes a filler."""
_ISO_3166_1: Final = """
    ABW:AW AFG:AF AGO:AO AIA:AI ALA:AX ALB:AL AND:AD ARE:AE ARG:AR ARM:AM ASM:AS ATA:AQ ATF:TF ATG:AG
    AUS:AU AUT:AT AZE:AZ BDI:BI BEL:BE BEN:BJ BES:BQ BFA:BF BGD:BD BGR:BG BHR:BH BHS:BS BIH:BA BLM:BL
    BLR:BY BLZ:BZ BMU:BM BOL:BO BRA:BR BRB:BB BRN:BN BTN:BT BVT:BV BWA:BW CAF:CF CAN:CA CCK:CC CHE:CH
    CHL:CL CHN:CN CIV:CI CMR:CM COD:CD COG:CG COK:CK COL:CO COM:KM CPV:CV CRI:CR CUB:CU CUW:CW CXR:CX
    CYM:KY CYP:CY CZE:CZ DEU:DE DJI:DJ DMA:DM DNK:DK DOM:DO DZA:DZ ECU:EC EGY:EG ERI:ER ESH:EH ESP:ES
    EST:EE ETH:ET FIN:FI FJI:FJ FLK:FK FRA:FR FRO:FO FSM:FM GAB:GA GBR:GB GEO:GE GGY:GG GHA:GH GIB:GI
    GIN:GN GLP:GP GMB:GM GNB:GW GNQ:GQ GRC:GR GRD:GD GRL:GL GTM:GT GUF:GF GUM:GU GUY:GY HKG:HK HMD:HM
    HND:HN HRV:HR HTI:HT HUN:HU IDN:ID IMN:IM IND:IN IOT:IO IRL:IE IRN:IR IRQ:IQ ISL:IS ISR:IL ITA:IT
    JAM:JM JEY:JE JOR:JO JPN:JP KAZ:KZ KEN:KE KGZ:KG KHM:KH KIR:KI KNA:KN KOR:KR KWT:KW LAO:LA LBN:LB
    LBR:LR LBY:LY LCA:LC LIE:LI LKA:LK LSO:LS LTU:LT LUX:LU LVA:LV MAC:MO MAF:MF MAR:MA MCO:MC MDA:MD
    MDG:MG MDV:MV MEX:MX MHL:MH MKD:MK MLI:ML MLT:MT MMR:MM MNE:ME MNG:MN MNP:MP MOZ:MZ MRT:MR MSR:MS
    MTQ:MQ MUS:MU MWI:MW MYS:MY MYT:YT NAM:NA NCL:NC NER:NE NFK:NF NGA:NG NIC:NI NIU:NU NLD:NL NOR:NO
    NPL:NP NRU:NR NZL:NZ OMN:OM PAK:PK PAN:PA PCN:PN PER:PE PHL:PH PLW:PW PNG:PG POL:PL PRI:PR PRK:KP
    PRT:PT PRY:PY PSE:PS PYF:PF QAT:QA REU:RE ROU:RO RUS:RU RWA:RW SAU:SA SDN:SD SEN:SN SGP:SG SGS:GS
    SHN:SH SJM:SJ SLB:SB SLE:SL SLV:SV SMR:SM SOM:SO SPM:PM SRB:RS SSD:SS STP:ST SUR:SR SVK:SK SVN:SI
    SWE:SE SWZ:SZ SXM:SX SYC:SC SYR:SY TCA:TC TCD:TD TGO:TG THA:TH TJK:TJ TKL:TK TKM:TM TLS:TL TON:TO
    TTO:TT TUN:TN TUR:TR TUV:TV TWN:TW TZA:TZ UGA:UG UKR:UA UMI:UM URY:UY USA:US UZB:UZ VAT:VA VCT:VC
    VEN:VE VGB:VG VIR:VI VNM:VN VUT:VU WLF:WF WSM:WS YEM:YE ZAF:ZA ZMB:ZM ZWE:ZW
"""

_OTHER_CODES: Final = {"D": "DE", "GBD": "GB", "GBN": "GB", "GBO": "GB", "GBP": "GB", "GBS": "GB"}
"""Codes of Doc 9303 for states that ISO names otherwise (G79)."""

ALPHA_2: Final = dict(pair.split(":") for pair in _ISO_3166_1.split()) | _OTHER_CODES
"""ISO 3166-1 alpha-2 of each three-letter code that has one."""

WITHOUT_ISO: Final = frozenset(
    {"UTO", "UNO", "UNA", "UNK", "EUE", "RKS", "XAA", "XBA", "XCC", "XCE", "XCO", "XDC", "XEC", "XES", "XIM"}
    | {"XMP", "XOM", "XPO", "XXA", "XXB", "XXC", "XXX", "XEX", "XAU", "IAO", "XCT", "NTZ"}
)
"""Issuers and nationalities of Doc 9303 part 3 section 5 that ISO cannot express; they stay three letters."""


def to_machine_zone(name: str) -> str:
    """Return a name in A-Z with `<` between its words."""
    return "<".join(words(name))


def words(name: str) -> tuple[str, ...]:
    """Return the words of a name in A-Z, transliterated as the machine-readable zone does."""
    capital = _DROPPED.sub("", unicodedata.normalize("NFC", name).replace("ß", "ẞ").upper())
    spelt = "".join(_TRANSLITERATIONS.get(character, character) for character in capital)
    return _plain(spelt)


def plain_words(name: str) -> tuple[str, ...]:
    """Return the words of a name in A-Z, marks simply dropped, as some states and most readers do."""
    return _plain(_DROPPED.sub("", name.upper()))


def _plain(text: str) -> tuple[str, ...]:
    decomposed = unicodedata.normalize("NFD", text)
    base = "".join(character for character in decomposed if not unicodedata.combining(character))
    return tuple(word for word in _NOT_LETTERS.split(base) if word)


def in_latin(name: str) -> str:
    """Return a name with Greek and Cyrillic look-alikes as Latin letters; a name of that script stays."""
    mapped = latin(name)
    letters = (character for character in mapped if character.isalpha())
    return mapped if all(unicodedata.name(letter, "").startswith("LATIN") for letter in letters) else name


def is_cut_from(name: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    """Return whether a name is another cut at its end, words before it shortened to three letters at most.

    Part 4 section 4.2.3 lets issuers choose; a longer word that differs is another name.
    """
    if not name or len(name) > len(whole):
        return False
    *before, last = zip(name, whole, strict=False)
    shortened = (part == word or (len(part) <= _SHORTENED and word.startswith(part)) for part, word in before)
    return last[1].startswith(last[0]) and all(shortened)


def country(code: str) -> str:
    """Return the alpha-2 of a code of Doc 9303, or the code itself when ISO 3166-1 has none (G79)."""
    return ALPHA_2.get(code, code)


def is_known(code: str) -> bool:
    """Return whether a code is known for machine-readable zones; unknown ones are not impossible."""
    return code in ALPHA_2 or code in WITHOUT_ISO
