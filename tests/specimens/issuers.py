# ruff: noqa: RUF001 - names and months in Cyrillic letters
"""Passport pages in the manner of many issuers, of holders drawn by chance, each marked SPECIMEN.

Only facts are taken from the issuers: which labels stand where and in which languages, how names, dates and
the sex are written, how a number is formed, what stands beside the fields. The drawing is that of `layouts`.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from types import MappingProxyType
from typing import Final

from streams.verification.readers.mrz_names import country, to_machine_zone
from streams.verification.readers.td3_lines import Td3Fields
from tests.specimens.layouts import Cell, Layout
from tests.specimens.people import UNMISTAKABLE, digits

Name = tuple[tuple[str, ...], str]
"""The lines that are printed, and the words of the zone."""
Row = tuple[tuple[str, int], ...]
"""Fields side by side, and how far from the left edge of the text each stands, in pixels."""

FIELDS: Final = ("number", "surname", "given_names", "birth", "expires", "sex")
"""What a page prints beside the zone."""
_LEFT_PX, _TOP_PX = 440, 92
_NUMERIC: Final = "{day:02}.{number:02}.{year}"
_WORDED: Final = "{day:02} {month} {year}"
_ENGLISH: Final = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"
_ROWS: Final[tuple[Row, ...]] = (
    (("type", 0), ("code", 160), ("number", 420)),
    (("surname", 0),),
    (("given_names", 0),),
    (("nationality", 0), ("personal", 500)),
    (("birth", 0), ("sex", 640)),
    (("birthplace", 0),),
    (("issued", 0), ("authority", 500)),
    (("expires", 0),),
)
_MARKED: Final[tuple[Row, ...]] = (
    (("type", 0), ("code", 160), ("number", 420)),
    (("surname", 0),),
    (("given_names", 0),),
    (("nationality", 0), ("height", 560)),
    (("birth", 0), ("personal", 460)),
    (("sex", 0), ("birthplace", 200)),
    (("issued", 0), ("authority", 400)),
    (("expires", 0), ("residence", 400)),
)
_SEX_FIRST: Final[tuple[Row, ...]] = (
    (("type", 0), ("code", 160), ("number", 420)),
    (("surname", 0),),
    (("given_names", 0),),
    (("nationality", 0), ("sex", 290), ("birth", 420)),
    (("birthplace", 0),),
    (("issue_place", 0),),
    (("issued", 0), ("expires", 420)),
)
_ONE_COLUMN: Final[tuple[Row, ...]] = tuple(
    ((name, 0),)
    for name in (
        *("type", "code", "number", "surname", "given_names", "nationality", "birth"),
        *("sex", "birthplace", "issued", "expires", "authority"),
    )
)


@dataclass(frozen=True, slots=True)
class Manner:
    """How an issuer lays out its page."""

    code: str
    labels: Mapping[str, str]
    surnames: Sequence[Name]
    given_names: Sequence[Name]
    number: str
    """`#` stands for a digit, `@` for a letter or a digit; a space is printed only."""
    date: str = _WORDED
    months: str = _ENGLISH
    sexes: Mapping[str, str] = field(default_factory=lambda: {"M": "M", "F": "F"})
    texts: Mapping[str, str] = field(default_factory=dict)
    """Fields that say the same on every page."""
    rows: tuple[Row, ...] = _ROWS
    nationality: str = ""
    """The code in the zone, when it is not the issuer's."""
    heading: str = "PASSPORT"
    font: str = "Sans-Bold"
    aside: bool = False
    """Whether labels stand to the left of their values."""
    both: str = ""
    """What parts the names where one field prints both."""


def _labels(every: str = "", **labels: str) -> Mapping[str, str]:
    """Return labels by field; `every` names fields and their labels in English alone."""
    usual = {
        "type": "Type",
        "code": "Country code",
        "number": "Passport No.",
        "surname": "Surname",
        "given_names": "Given names",
        "nationality": "Nationality",
        "birth": "Date of birth",
        "sex": "Sex",
        "birthplace": "Place of birth",
        "issued": "Date of issue",
        "expires": "Date of expiry",
        "authority": "Authority",
        "issue_place": "Place of issue",
        "personal": "Personal No.",
        "height": "Height",
        "residence": "Residence",
    }
    return (
        usual | labels if not every else {name: f"{text}{every}" for name, text in (usual | labels).items()}
    )


def _names(*names: str) -> tuple[Name, ...]:
    """Return names printed as they are; `|` parts lines, and after `=` stands what the zone has."""
    pairs = [name.partition("=") for name in names]
    return tuple((tuple(shown.split("|")), zone or to_machine_zone(shown)) for shown, _, zone in pairs)


MANNERS: Final[Mapping[str, Manner]] = MappingProxyType(
    {
        "numbered labels, degrees and a name at birth below": Manner(
            "D",
            _labels(
                type="Typ/Type/Type",
                code="Kode/Code/Code",
                number="Pass-Nr./Passport No./Passeport No",
                surname="1. Name/Surname/Nom",
                given_names="2. Vornamen/Given names/Prénoms",
                nationality="3. Staatsangehörigkeit/Nationality/Nationalité",
                birth="4. Geburtstag/Date of birth/Date de naissance",
                sex="5. Geschlecht/Sex/Sexe",
                birthplace="6. Geburtsort/Place of birth/Lieu de naissance",
                issued="7. Ausstellungsdatum/Date of issue/Date de délivrance",
                expires="8. Gültig bis/Date of expiry/Date d'expiration",
                authority="9. Behörde/Authority/Autorité",
            ),
            _names(
                "DR. MÜLLER=MUELLER",
                "GROẞMANN|GEB. SCHÖNE=GROSSMANN",
                "VON DER HEIDE",
                "DR. DR. KELLER=KELLER",
            ),
            _names("JÖRG HEINZ=JOERG<HEINZ", "ERIKA", "KÄTHE ANNA-LENA=KAETHE<ANNA<LENA"),
            "C@@@@@@@@",
            _NUMERIC,
            texts={
                "nationality": "SPECIMENISCH",
                "birthplace": "MUSTERSTADT",
                "authority": "MUSTERSTADT",
            },
            heading="REISEPASS PASSPORT",
        ),
        "letters before the names, the birth name in a field of its own": Manner(
            "D",
            _labels(
                number="Pass-Nr./Passport No./Passeport No",
                surname="[a] Name/Surname/Nom [b] Geburtsname/Name at birth/Nom de naissance",
                given_names="Vornamen/Given names/Prénoms",
                nationality="Staatsangehörigkeit/Nationality/Nationalité",
                birth="Geburtstag/Date of birth/Date de naissance",
                sex="Geschlecht/Sex/Sexe",
                birthplace="Geburtsort/Place of birth/Lieu de naissance",
                issued="Ausstellungsdatum/Date of issue/Date de délivrance",
                expires="Gültig bis/Date of expiry/Date d'expiration",
                authority="Behörde/Authority/Autorité",
            ),
            _names("[a] MÜLLER|[b] VON DER HEIDE=MUELLER", "[a] SCHMIDT|[b] KRÜGER=SCHMIDT"),
            _names("JÖRG HEINZ=JOERG<HEINZ", "ERIKA"),
            "L@@@@@@@@",
            _NUMERIC,
            texts={
                "nationality": "SPECIMENISCH",
                "birthplace": "MUSTERSTADT",
                "authority": "MUSTERSTADT",
            },
            nationality="XXA",
        ),
        "numbers behind labels in two languages, a name by marriage": Manner(
            "FRA",
            _labels(
                number="Passeport no/Passport No",
                surname="Nom/Surname (1)",
                given_names="Prénoms/Given names (2)",
                nationality="Nationalité/Nationality (3)",
                birth="Date de naissance/Date of birth (4)",
                sex="Sexe/Sex (5)",
                birthplace="Lieu de naissance/Place of birth (6)",
                issued="Date de délivrance/Date of issue (7)",
                expires="Date d'expiration/Date of expiry (8)",
                authority="Autorité/Authority (9)",
                height="Taille/Height (12)",
                personal="Yeux/Eyes (13)",
                residence="Domicile/Residence (11)",
            ),
            _names("LEFÈVRE", "MARTIN|ép. DURAND=MARTIN", "DE LA FONTAINE", "D'ARTAGNAN"),
            _names("Maëlys-Gaëlle, Marie", "Élise", "Jean-Luc, André, Noël"),
            "##AK#####",
            "{day:02} {number:02} {year}",
            texts={
                "nationality": "Spécimen",
                "birthplace": "EXEMPLE",
                "height": "1,65 m",
                "personal": "MARRON",
            },
            rows=_MARKED,
            heading="PASSEPORT",
        ),
        "mixed case, the sex in two languages, a spouse's name below": Manner(
            "NLD",
            _labels(
                number="documentnummer/document no.",
                surname="naam/surname/nom",
                given_names="voornamen/given names/prénoms",
                nationality="nationaliteit/nationality/nationalité",
                birth="geboortedatum/date of birth/date de naissance",
                sex="geslacht/sex/sexe",
                birthplace="geboorteplaats/place of birth/lieu de naissance",
                issued="datum van afgifte/date of issue/date de délivrance",
                expires="geldig tot/date of expiry/date d'expiration",
                authority="autoriteit/authority/autorité",
                personal="persoonsnummer/personal no.",
            ),
            _names("De Bruijn|e/v Molenaar=DE<BRUIJN", "Van der Meer", "Jansen", "IJsselstein"),
            _names("Willeke Liselotte", "Jan", "Noëlle Sophie Anne"),
            "N@@#@@##@",
            "{day:02} {month} {year}",
            (
                "JAN/JAN FEB/FEB MAA/MAR APR/APR MEI/MAY JUN/JUN"
                " JUL/JUL AUG/AUG SEP/SEP OKT/OCT NOV/NOV DEC/DEC"
            ),
            {"M": "M/M", "F": "V/F"},
            {"nationality": "Specimense", "birthplace": "Voorbeeld", "authority": "Burg. van Specimen"},
            heading="PASPOORT",
        ),
        "years of two digits, a number of an earlier passport": Manner(
            "NGA",
            _labels(
                number="Passport No./No de Passeport",
                surname="Surname/Nom",
                given_names="Given Names/Prénoms",
                nationality="Nationality/Nationalité",
                birth="Date of Birth/Date de Naissance",
                sex="Sex/Sexe",
                birthplace="Place of Birth/Lieu de Naissance",
                issued="Date of Issue/Date de délivrance",
                expires="Date of Expiry/Date d'expiration",
                authority="Authority/Autorité",
                personal="Previous Passport No.",
            ),
            _names("OKONKWO", "ABUBAKAR", "ADEBAYO-WILLIAMS", "EZE"),
            _names("ADAEZE NGOZI", "YUSUF", "OLUWASEUN BABATUNDE"),
            "B########",
            "{day:02} {month} {short:02}",
            (
                "JAN/JAN FEB/FÉV MAR/MARS APR/AVR MAY/MAI JUN/JUIN"
                " JUL/JUIL AUG/AOÛT SEP/SEPT OCT/OCT NOV/NOV DEC/DÉC"
            ),
            texts={"nationality": "SPECIMENIAN", "birthplace": "EXAMPLE", "personal": "A01234567"},
        ),
        "labels in capitals, a space in the number": Manner(
            "POL",
            _labels(
                number="NUMER PASZPORTU/PASSPORT NO.",
                surname="1. NAZWISKO/SURNAME/NOM",
                given_names="2. IMIONA/GIVEN NAMES/PRÉNOMS",
                nationality="3. OBYWATELSTWO/NATIONALITY",
                birth="4. DATA URODZENIA/DATE OF BIRTH",
                personal="5. NUMER PESEL/PERSONAL NO.",
                sex="6. PŁEĆ/SEX/SEXE",
                birthplace="7. MIEJSCE URODZENIA/PLACE OF BIRTH",
                issued="8. DATA WYDANIA/DATE OF ISSUE",
                authority="9. ORGAN WYDAJĄCY/AUTHORITY",
                expires="10. DATA WAŻNOŚCI/DATE OF EXPIRY",
            ),
            _names("KOWALSKA", "WIŚNIEWSKI", "ŁUKASIEWICZ-ŻAK", "GÓRSKA"),
            _names("ANNA MARIA", "STANISŁAW", "ZOFIA"),
            "EA #######",
            _NUMERIC,
            sexes={"M": "M/M", "F": "K/F"},
            texts={"nationality": "SPECIMEN", "birthplace": "PRZYKŁAD", "authority": "WOJEWODA SPECIMEN"},
        ),
        "three languages parted by spaced strokes, months in small letters": Manner(
            "USA",
            _labels(
                type="Type / Type / Tipo",
                code="Code / Code / Código",
                number="Passport No. / No. du Passeport / No. de Pasaporte",
                surname="Surname / Nom / Apellidos",
                given_names="Given Names / Prénoms / Nombres",
                nationality="Nationality / Nationalité / Nacionalidad",
                birth="Date of birth / Date de naissance / Fecha de nacimiento",
                sex="Sex / Sexe / Sexo",
                birthplace="Place of birth / Lieu de naissance / Lugar de nacimiento",
                issued="Date of issue / Date de délivrance / Fecha de expedición",
                authority="Authority / Autorité / Autoridad",
                expires="Date of expiration / Date d'expiration / Fecha de caducidad",
            ),
            _names("TRAVELER", "MC DONALD", "O'BRIEN", "SMITH-JONES"),
            _names("HAPPY", "JOHN QUINCY", "MARY ANN"),
            "#########",
            months="Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec",
            texts={
                "nationality": "UNITED SPECIMENS",
                "birthplace": "EXAMPLE, U.S.A.",
                "authority": "Department of Specimens",
            },
            rows=(
                (("type", 0), ("code", 160), ("number", 330)),
                (("surname", 0),),
                (("given_names", 0),),
                (("nationality", 0),),
                (("birth", 0),),
                (("birthplace", 0), ("sex", 520)),
                (("issued", 0), ("authority", 460)),
                (("expires", 0),),
            ),
        ),
        "sex before the birth date, dates with strokes, a number of eight": Manner(
            "IND",
            _labels(given_names="Given Name(s)", code="Country Code"),
            _names("SPECIMENWALA", "SHARMA", "RAO"),
            _names("RAMADUGULA SITA MAHA LAKSHMI", "VIJAY", "PRIYA"),
            "Z#######",
            "{day:02}/{number:02}/{year}",
            texts={"nationality": "SPECIMEN", "birthplace": "EXAMPLE, STATE", "issue_place": "EXAMPLE"},
            rows=_SEX_FIRST,
            heading="REPUBLIC OF SPECIMEN",
        ),
        "serifs, a registered domicile": Manner(
            "JPN",
            _labels(given_names="Given name", code="Issuing country", personal="Registered Domicile"),
            _names("GAIMU", "SATO", "YAMAMOTO"),
            _names("SAKURA", "KEN", "YOKO"),
            "TZ#######",
            texts={"nationality": "SPECIMEN", "personal": "TOKYO", "authority": "MINISTRY OF SPECIMENS"},
            font="Serif-Bold",
        ),
        "one field of both names, a hyphen in the given name": Manner(
            "TWN",
            _labels(
                surname="Name (Surname, Given names)",
                given_names="Also known as",
                personal="Personal Id. No.",
            ),
            _names("LIN", "CHEN", "OUYANG"),
            _names("MEI-HUA", "CHIH-MING", "SHU-FEN"),
            "3########",
            texts={"nationality": "REPUBLIC OF SPECIMEN", "personal": "A234567890", "given_names": ""},
            both=", ",
        ),
        "languages parted by full stops": Manner(
            "ITA",
            _labels(
                type="Tipo. Type. Type.",
                code="Codice Paese. Code of issuing State.",
                number="Passaporto N. Passport No. Passeport No.",
                surname="Cognome. Surname. Nom. (1)",
                given_names="Nome. Given Names. Prénoms. (2)",
                nationality="Cittadinanza. Nationality. Nationalité. (3)",
                birth="Data di nascita. Date of birth. Date de naissance. (4)",
                sex="Sesso. Sex. Sexe. (5)",
                birthplace="Luogo di nascita. Place of birth. Lieu de naissance. (6)",
                issued="Data di rilascio. Date of issue. (7)",
                authority="Autorità. Authority. Autorité. (9)",
                expires="Data di scadenza. Date of expiry. Date d'expiration. (8)",
            ),
            _names("ROSSI", "D'ANGELO", "DE LUCA"),
            _names("NICOLÒ", "BIANCA MARIA", "GIOSUÈ=GIOSUE"),
            "YA#######",
            months=(
                "GEN/JAN FEB/FEB MAR/MAR APR/APR MAG/MAY GIU/JUN"
                " LUG/JUL AGO/AUG SET/SEP OTT/OCT NOV/NOV DIC/DEC"
            ),
            texts={"nationality": "SPECIMEN", "birthplace": "ESEMPIO (SP)", "authority": "MINISTRO SPECIMEN"},
            heading="PASSAPORTO",
        ),
        "a woman's sex that begins like a man's, the year first": Manner(
            "LTU",
            _labels(
                number="Paso Nr./Passport No",
                surname="Pavardė/Surname",
                given_names="Vardas/Given names",
                nationality="Pilietybė/Nationality",
                birth="Gimimo data/Date of birth",
                sex="Lytis/Sex",
                birthplace="Gimimo vieta/Place of birth",
                issued="Išdavimo data/Date of issue",
                authority="Išdavė/Authority",
                expires="Galioja iki/Date of expiry",
                personal="Asmens kodas/Personal No.",
            ),
            _names("ŽEMAITĖ", "KAZLAUSKAS", "ČIURLIONYTĖ"),
            _names("AUŠRA", "JONAS", "RŪTA ELŽBIETA"),
            "########",
            "{year}-{number:02}-{day:02}",
            sexes={"M": "V/M", "F": "M/F"},
            texts={"nationality": "SPECIMENO", "birthplace": "PAVYZDYS", "authority": "SPECIMEN"},
        ),
        "five languages parted by points": Manner(
            "CHE",
            _labels(
                number="Pass Nr. • Passeport No • Passport No",
                surname="Name • Nom • Cognome • Num • Surname",
                given_names="Vornamen • Prénoms • Nomi • Prenums • Given names",
                nationality="Heimatort • Lieu d'origine",
                birth="Geburtsdatum • Date de naissance • Data di nascita • Date of birth",
                sex="Sesso • Sex",
                birthplace="Heimatort • Lieu d'origine • Place of origin",
                issued="Ausstellung am • Date de délivrance • Date of issue",
                authority="Behörde • Autorité • Authority",
                expires="Gültig bis • Date d'expiration • Date of expiry",
            ),
            _names("SCHWEIZER SAMPLE", "CRÉTIN=CRETIN", "ZÜRCHER=ZUERCHER"),
            _names("HELVETIA", "URS", "MARIE CLAUDE"),
            "X#######",
            _NUMERIC,
            texts={"nationality": "SPECIMEN", "birthplace": "BEISPIEL BE", "authority": "SPECIMEN"},
        ),
        "two months and two digits of a year": Manner(
            "CAN",
            _labels(
                number="Passport No./No de passeport",
                surname="Surname/Nom",
                given_names="Given names/Prénoms",
                nationality="Nationality/Nationalité",
                birth="Date of birth/Date de naissance",
                sex="Sex/Sexe",
                birthplace="Place of birth/Lieu de naissance",
                issued="Date of issue/Date de délivrance",
                expires="Date of expiry/Date d'expiration",
                authority="Issuing Authority/Autorité de délivrance",
            ),
            _names("MARTIN", "TREMBLAY", "BOUCHARD GAGNÉ"),
            _names("SARAH", "JEAN-FRANÇOIS", "ÉMILIE ROSE"),
            "GA######",
            "{day:02} {month} {short:02}",
            (
                "JAN/JAN FEB/FÉV MAR/MARS APR/AVR MAY/MAI JUNE/JUIN"
                " JULY/JUIL AUG/AOÛT SEPT/SEPT OCT/OCT NOV/NOV DEC/DÉC"
            ),
            texts={"nationality": "SPECIMEN", "birthplace": "EXAMPLE SPC", "authority": "SPECIMEN"},
        ),
        "national characters and the transliteration in one line": Manner(
            "UKR",
            _labels(
                number="Номер паспорта/Passport No.",
                surname="Прізвище/Surname",
                given_names="Ім'я/Given Names",
                nationality="Громадянство/Nationality",
                birth="Дата народження/Date of birth",
                sex="Стать/Sex",
                birthplace="Місце народження/Place of birth",
                issued="Дата видачі/Date of issue",
                authority="Орган, що видав/Authority",
                expires="Дата закінчення строку дії/Date of expiry",
                personal="Запис №/Record No.",
            ),
            _names("ТКАЧЕНКО/TKACHENKO=TKACHENKO", "БОНДАР/BONDAR=BONDAR", "СИДОРЕНКО/|SYDORENKO=SYDORENKO"),
            _names("МАР'ЯНА/MARIANA=MARIANA", "ІВАН/IVAN=IVAN", "ОЛЕНА/OLENA=OLENA"),
            "FE######",
            "{day:02} {month} {short:02}",
            (
                "СІЧ/JAN ЛЮТ/FEB БЕР/MAR КВІ/APR ТРА/MAY ЧЕР/JUN"
                " ЛИП/JUL СЕР/AUG ВЕР/SEP ЖОВ/OCT ЛИС/NOV ГРУ/DEC"
            ),
            {"M": "Ч/M", "F": "Ж/F"},
            {
                "nationality": "СПЕЦИМЕН/SPECIMEN",
                "birthplace": "ПРИКЛАД/EXAMPLE",
                "personal": "19900101-12345",
            },
        ),
        "labels to the left of the values, a state known to no ISO list": Manner(
            "RKS",
            _labels(every=":"),
            _names("KRASNIQI", "BERISHA", "GASHI"),
            _names("ARTA", "DREN", "LULJETA MIMOZA"),
            "P########",
            _NUMERIC,
            texts={"nationality": "SPECIMEN", "birthplace": "SHEMBULL", "authority": "MINISTRY OF SPECIMENS"},
            rows=_ONE_COLUMN,
            aside=True,
        ),
        "labels to the left without a colon": Manner(
            "UTO",
            _labels(),
            _names("BALOGUN", "NAKAMURA", "ERIKSSON"),
            _names("ANNA MARIA", "PAUL", "GRACE"),
            "L##@##@#@",
            texts={"nationality": "UTOPIAN", "birthplace": "ZENITH", "authority": "PASSPORT OFFICE"},
            rows=_ONE_COLUMN,
            font="Sans",
            aside=True,
        ),
        "parents of the same surname": Manner(
            "BRA",
            _labels(
                number="PASSAPORTE Nº/PASSPORT No.",
                surname="SOBRENOME/SURNAME",
                given_names="NOME/GIVEN NAMES",
                nationality="NACIONALIDADE/NATIONALITY",
                birth="DATA DE NASCIMENTO/DATE OF BIRTH",
                sex="SEXO/SEX",
                personal="IDENTIDADE Nº/PERSONAL No.",
                birthplace="FILIAÇÃO/FILIATION",
                issued="DATA DE EXPEDIÇÃO/DATE OF ISSUE",
                authority="AUTORIDADE/AUTHORITY",
                expires="VÁLIDO ATÉ/DATE OF EXPIRY",
            ),
            _names("SANTOS", "OLIVEIRA DA SILVA", "CONCEIÇÃO"),
            _names("JOÃO=JOAO", "MARIA APARECIDA", "FÁTIMA"),
            "FG######",
            months=(
                "JAN/JAN FEV/FEB MAR/MAR ABR/APR MAI/MAY JUN/JUN"
                " JUL/JUL AGO/AUG SET/SEP OUT/OCT NOV/NOV DEZ/DEC"
            ),
            texts={"nationality": "SPECIMEN", "birthplace": "ANTONIO SANTOS / ROSA SANTOS"},
        ),
        "months in Irish, one label in three lines' length": Manner(
            "IRL",
            _labels(
                number="Pas Uimh/Passport No./No. du passeport",
                surname="Sloinne/Surname/Nom (1)",
                given_names="Réamhainm(neacha)/Forename(s)/Prénom(s) (2)",
                nationality="Náisiúntacht/Nationality/Nationalité (3)",
                birth="Dáta breithe/Date of birth/Date de naissance (4)",
                sex="Gnéas/Sex/Sexe (5)",
                birthplace="Áit bhreithe/Place of birth/Lieu de naissance (6)",
                issued="Dáta eisiúna/Date of issue/Date de délivrance (7)",
                authority="Údarás/Authority/Autorité (9)",
                expires="As feidhm/Date of expiry/Date d'expiration (8)",
            ),
            _names("Ó MÁILLE=O<MAILLE", "MURPHY", "NÍ BHRIAIN"),
            _names("CIARÁN", "AOIFE", "SEÁN PÁDRAIG"),
            "LN#######",
            "{day:02} {month} {year}",
            (
                "Ean/JAN Feabh/FEB Márta/MAR Aib/APR Beal/MAY Meith/JUN Iúil/JUL Lún/AUG"
                " MFómh/SEP DFómh/OCT Samh/NOV Noll/DEC"
            ),
            texts={"nationality": "SPECIMEN/IRISH", "birthplace": "SAMPLA", "authority": "PASSPORT OFFICE"},
        ),
        "one label for both names, each in its line": Manner(
            "AUS",
            _labels(number="Document No.", surname="Name", given_names=""),
            _names("CITIZEN", "O'NEILL", "NGUYEN"),
            _names("JANE", "THOMAS EDWARD", "MAI LAN"),
            "PA#######",
            texts={"nationality": "SPECIMEN", "birthplace": "EXAMPLE", "authority": "SPECIMEN"},
            both="|",
        ),
    }
)
"""By what is peculiar to them; names, places and numbers are invented."""


def issued_page(
    index: int, chance: random.Random, printed: Mapping[str, tuple[str, ...]] = MappingProxyType({})
) -> tuple[str, Layout]:
    """Return the manner of an index and a page of somebody; `printed` replaces the lines of some fields."""
    name = tuple(MANNERS)[index % len(MANNERS)]
    manner = MANNERS[name]
    surname, given = chance.choice(manner.surnames), chance.choice(manner.given_names)
    number = "".join(_character(one, chance) for one in manner.number)
    born = date(1940, 1, 1) + timedelta(chance.randrange(25_000))
    expires = date(2027, 1, 1) + timedelta(chance.randrange(3_000))
    sex = chance.choice("MF")
    names = (*surname[0], *given[0]) if manner.both == "|" else (manner.both.join((*surname[0], *given[0])),)
    values = {
        "type": ("P",),
        "code": (manner.code,),
        "number": (number,),
        "surname": names if manner.both else surname[0],
        "given_names": () if manner.both else given[0],
        "birth": (_text(manner, born),),
        "expires": (_text(manner, expires),),
        "issued": (_text(manner, expires - timedelta(3_652)),),
        "sex": (manner.sexes[sex],),
        "personal": (digits(chance, 11),),
        **{field: (text,) for field, text in manner.texts.items() if text},
        **printed,
    }
    zone = Td3Fields(
        *(surname[1], given[1], number.replace(" ", ""), f"{born:%y%m%d}", sex, f"{expires:%y%m%d}"),
        issuer=manner.code,
        nationality=manner.nationality or manner.code,
    )
    true = {
        "surname": surname[1].replace("<", " "),
        "given_names": given[1].replace("<", " "),
        "issuing_state": country(manner.code),
        "nationality": country(zone.nationality),
        "date_of_birth": born.isoformat(),
        "sex": sex,
        "expiry_date": expires.isoformat(),
    }
    return name, Layout(
        zone=zone,
        cells=tuple(_cells(manner, values)),
        true=true,
        number=zone.number,
        heading=manner.heading,
        value_px=24 if manner.aside else 26,
        font=manner.font,
        aside=manner.aside,
        extras=frozenset(one for one in ("ghost", "signature", "side", "holes") if chance.random() < 0.4),
    )


def forged(index: int, what: str, chance: random.Random) -> tuple[str, Layout]:
    """Return the manner of an index and a page whose print differs in one field from its zone."""
    manner = tuple(MANNERS.values())[index % len(MANNERS)]
    seed = chance.random()
    name, page = issued_page(index, random.Random(seed))
    changed = _label(manner, what)
    cells = (
        (label, _other(manner, page, what, lines, chance) if label == changed else lines, place)
        for label, lines, place in page.cells
    )
    return name, replace(page, cells=tuple(cells))


def _label(manner: Manner, what: str) -> str:
    return manner.labels["surname" if what == "given_names" and manner.both else what]


def _other(
    manner: Manner, page: Layout, what: str, lines: tuple[str, ...], chance: random.Random
) -> tuple[str, ...]:
    """Return what a forger prints instead of the lines of a field; a name's national spelling stays."""
    true = page.true
    match what:
        case "number":
            place = chance.choice([place for place, one in enumerate(page.number) if one.isdigit()])
            digit = str((int(page.number[place]) + chance.randrange(1, 10)) % 10)
            return (page.number[:place] + digit + page.number[place + 1 :],)
        case "birth" | "expires":
            day = date.fromisoformat(true["date_of_birth" if what == "birth" else "expiry_date"])
            return (_text(manner, day + timedelta(chance.choice((-1, 1)) * chance.randrange(40, 4_000))),)
        case "sex":
            return (manner.sexes["M" if true["sex"] == "F" else "F"],)
    names = {key: true[key] for key in ("surname", "given_names")}
    names[what] = chance.choice(("OLAJIDE", "WETHERBY", "PRONTERA"))
    if not manner.both:
        national, stroke, latin = lines[0].partition("/")
        if stroke and not latin:
            return (lines[0], names[what])
        return (f"{national}/{names[what]}" if stroke else names[what],)
    return tuple(names.values()) if manner.both == "|" else (manner.both.join(names.values()),)


def _cells(manner: Manner, values: Mapping[str, tuple[str, ...]]) -> Sequence[Cell]:
    """Return the fields that have a value, row below row."""
    cells: list[Cell] = []
    shown = [
        [(name, left) for name, left in row if values.get(name) and name in manner.labels]
        for row in manner.rows
    ]
    rows = [row for row in shown if row]
    lines = [1 if manner.aside else 1.9 + (max(len(values[name]) for name, _ in row) - 1) for row in rows]
    pitch = min((676 - _TOP_PX) / sum(lines), 42)
    top = float(_TOP_PX)
    for row, high in zip(rows, lines, strict=True):
        cells += [(manner.labels[name], values[name], (_LEFT_PX + left, round(top))) for name, left in row]
        top += high * pitch
    return cells


def _character(form: str, chance: random.Random) -> str:
    return {"#": digits(chance, 1), "@": chance.choice(UNMISTAKABLE)}.get(form, form)


def _text(manner: Manner, day: date) -> str:
    month = manner.months.split()[day.month - 1]
    return manner.date.format(day=day.day, month=month, number=day.month, year=day.year, short=day.year % 100)
