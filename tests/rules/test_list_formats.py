"""Published lists, in small files of each form: what is read of them, and what is refused."""

import json
from io import BytesIO

import pytest

from schemas.enums import CheckKind
from schemas.lists import EntityKind, Gender, Identifier, ListKind, NameEntry
from streams.lists.formats import ofac_csv
from streams.lists.formats.facts import country_code, partial_dates
from streams.lists.formats.reading import FormatUnreadable, Reading
from streams.lists.formats.recognising import read_published
from streams.lists.formats.tenant import EntriesInvalid, TextForm, read_entries

OFAC_ADVANCED = """<?xml version="1.0"?>
<Sanctions xmlns="urn:some-host"><DateOfIssue><Year>2026</Year><Month>3</Month><Day>9</Day></DateOfIssue>
<ReferenceValueSets>
<FeatureTypeValues><FeatureType ID="8">Birthdate</FeatureType>
<FeatureType ID="10">Nationality Country</FeatureType>
<FeatureType ID="224">Gender</FeatureType><FeatureType ID="344">Digital Currency Address - XBT</FeatureType>
<FeatureType ID="25">Location</FeatureType></FeatureTypeValues>
<CountryValues><Country ID="7" ISO2="IR">Iran</Country></CountryValues>
<IDRegDocTypeValues><IDRegDocType ID="1571">Passport</IDRegDocType></IDRegDocTypeValues>
<PartyTypeValues><PartyType ID="1">Individual</PartyType></PartyTypeValues>
<PartySubTypeValues><PartySubType ID="4" PartyTypeID="1">Unknown</PartySubType></PartySubTypeValues>
<DetailReferenceValues><DetailReference ID="91526">Male</DetailReference>
<DetailReference ID="5">Iran</DetailReference>
</DetailReferenceValues></ReferenceValueSets>
<Locations><Location ID="55"><LocationCountry CountryID="7"/><LocationPart><LocationPartValue>
<Value>Tehran</Value>
</LocationPartValue></LocationPart></Location></Locations>
<IDRegDocuments><IDRegDocument IDRegDocTypeID="1571" IdentityID="3">
<IDRegistrationNo>A1234567</IDRegistrationNo>
</IDRegDocument></IDRegDocuments>
<DistinctParties><DistinctParty FixedRef="36"><Profile ID="36" PartySubTypeID="4">
<Identity ID="3" Primary="true">
<Alias Primary="false" LowQuality="true"><DocumentedName><DocumentedNamePart>
<NamePartValue>The Tailor</NamePartValue>
</DocumentedNamePart></DocumentedName></Alias>
<Alias Primary="true" LowQuality="false"><DocumentedName><DocumentedNamePart>
<NamePartValue>Qadoori</NamePartValue>
</DocumentedNamePart><DocumentedNamePart><NamePartValue>Zafar</NamePartValue></DocumentedNamePart>
</DocumentedName></Alias>
</Identity>
<Feature FeatureTypeID="8"><FeatureVersion><DatePeriod><Start><From><Year>1970</Year><Month>1</Month>
<Day>1</Day></From>
</Start><End><To><Year>1970</Year><Month>12</Month><Day>31</Day></To></End></DatePeriod></FeatureVersion>
</Feature>
<Feature FeatureTypeID="10"><FeatureVersion><VersionDetail DetailReferenceID="5"/></FeatureVersion>
</Feature>
<Feature FeatureTypeID="224"><FeatureVersion><VersionDetail DetailReferenceID="91526"/></FeatureVersion>
</Feature>
<Feature FeatureTypeID="344"><FeatureVersion><VersionDetail>bc1qexample</VersionDetail></FeatureVersion>
</Feature>
<Feature FeatureTypeID="25"><FeatureVersion><VersionLocation LocationID="55"/></FeatureVersion></Feature>
</Profile></DistinctParty></DistinctParties>
<SanctionsEntries><SanctionsEntry ProfileID="36"><SanctionsMeasure><Comment>IRAN</Comment>
</SanctionsMeasure>
</SanctionsEntry></SanctionsEntries></Sanctions>"""

OFAC_SIMPLE = """<sdnList xmlns="urn:x"><publshInformation><Publish_Date>03/09/2026</Publish_Date>
</publshInformation>
<sdnEntry><uid>36</uid><firstName>Zafar</firstName><lastName>QADOORI</lastName><sdnType>Individual</sdnType>
<programList><program>IRAN</program></programList>
<idList><id><idType>Passport</idType><idNumber>A1234567</idNumber></id>
<id><idType>Gender</idType><idNumber>Male</idNumber></id>
<id><idType>Digital Currency Address - XBT</idType><idNumber>bc1qexample</idNumber></id></idList>
<akaList><aka><category>weak</category><lastName>The Tailor</lastName></aka></akaList>
<addressList><address><city>Tehran</city><country>Iran</country></address></addressList>
<nationalityList><nationality><country>Iran</country></nationality></nationalityList>
<dateOfBirthList><dateOfBirthItem><dateOfBirth>1970</dateOfBirth></dateOfBirthItem></dateOfBirthList>
</sdnEntry></sdnList>"""

OFAC_CSV = (
    '36,"QADOORI, Zafar","individual","IRAN",-0- ,-0- ,-0- ,-0- ,-0- ,-0- ,-0- ,"DOB 1970; nationality Iran; '
    'Passport A1234567 (Iran); Gender Male; Digital Currency Address - XBT bc1qexample."\r\n\x1a'
)
OFAC_CSV_ALIASES = '36,12,"aka","The Tailor","weak"\r\n'
OFAC_CSV_ADDRESSES = '36,25,-0- ,"Tehran","Iran",-0- \r\n'

UN = """<CONSOLIDATED_LIST dateGenerated="2026-03-09"><INDIVIDUALS><INDIVIDUAL><DATAID>36</DATAID>
<FIRST_NAME>Zafar</FIRST_NAME><SECOND_NAME>Qadoori</SECOND_NAME><UN_LIST_TYPE>IRAN</UN_LIST_TYPE>
<LISTED_ON>2026-03-09</LISTED_ON><GENDER>Male</GENDER><NATIONALITY>
<VALUE>Iran (Islamic Republic of)</VALUE></NATIONALITY>
<INDIVIDUAL_ALIAS><QUALITY>Low</QUALITY><ALIAS_NAME>The Tailor</ALIAS_NAME></INDIVIDUAL_ALIAS>
<INDIVIDUAL_ADDRESS><CITY>Tehran</CITY><COUNTRY>Iran</COUNTRY></INDIVIDUAL_ADDRESS>
<INDIVIDUAL_DATE_OF_BIRTH><TYPE_OF_DATE>EXACT</TYPE_OF_DATE><YEAR>1970</YEAR></INDIVIDUAL_DATE_OF_BIRTH>
<INDIVIDUAL_DOCUMENT><TYPE_OF_DOCUMENT>Passport</TYPE_OF_DOCUMENT><NUMBER>A1234567</NUMBER>
</INDIVIDUAL_DOCUMENT>
</INDIVIDUAL></INDIVIDUALS></CONSOLIDATED_LIST>"""

EU = """<export xmlns="urn:y" generationDate="2026-03-09T10:00:00"><sanctionEntity euReferenceNumber="36">
<regulation programme="IRAN"/><subjectType classificationCode="P" code="person"/>
<nameAlias wholeName="Zafar Qadoori" strong="true" gender="M"/>
<nameAlias wholeName="The Tailor" strong="false"/>
<citizenship countryIso2Code="IR"/><birthdate year="1970"/>
<address city="Tehran" countryDescription="Iran" countryIso2Code="IR"/>
<identification identificationTypeCode="passport" number="A1234567"/></sanctionEntity></export>"""

UK = """Report Date: 09-Mar-2026
Unique ID,Name 6,Name 1,Name type,Alias strength,Name non-latin script,Regime Name,Designation Type,\
Address Line 1,\
Address Country,D.O.B,Nationality(/ies),Passport number,Gender
36,Tailor,The,Alias,Low quality a.k.a,,IRAN,Individual,,,00/00/1970,Iran,A1234567,Male
36,Qadoori,Zafar,Primary Name,,,IRAN,Individual,Tehran,Iran,00/00/1970,Iran,A1234567,Male
"""

SIMPLE_CSV = """"id","schema","name","aliases","birth_date","countries","addresses","identifiers","dataset"
"36","Person","Zafar Qadoori","Z. Qadoori","1970","ir","Tehran, Iran","A1234567","IRAN"
"""

FTM = (
    '{"id":"36","schema":"Person","properties":{"name":["Zafar Qadoori"],"weakAlias":["The Tailor"],'
    '"birthDate":["1970"],"nationality":["ir"],"gender":["male"],"passportNumber":["A1234567"],'
    '"address":["Tehran, Iran"],"program":["IRAN"],"topics":["sanction"]}}\n'
    '{"id":"p","schema":"Passport","properties":{"number":["A1234567"]}}\n'
)

PUBLISHED = {
    "ofac advanced": OFAC_ADVANCED,
    "ofac simple": OFAC_SIMPLE,
    "ofac csv": OFAC_CSV,
    "un": UN,
    "eu": EU,
    "uk": UK,
    "opensanctions csv": SIMPLE_CSV,
    "opensanctions entities": FTM,
}


def read(text: str | bytes) -> tuple[list[NameEntry], Reading]:
    """Read a published list to its end."""
    reading = read_published(BytesIO(text.encode() if isinstance(text, str) else text))
    return list(reading.entries), reading


@pytest.mark.parametrize("form", PUBLISHED)
def test_a_published_form_is_recognised_and_read(form: str) -> None:
    (entry,), reading = read(PUBLISHED[form])

    assert reading.failed == 0
    assert (entry.entity_id, entry.kind) == ("36", EntityKind.PERSON)
    assert entry.names[0].lower() in {"zafar qadoori", "qadoori zafar"}
    assert entry.birth_dates == ("1970",)
    assert entry.countries == ("IR",)
    assert [one.value for one in entry.identifiers] == ["A1234567"]
    assert entry.programs == ("IRAN",)


@pytest.mark.parametrize("form", sorted(PUBLISHED.keys() - {"ofac csv", "opensanctions csv"}))
def test_names_that_a_list_calls_unsure_are_weak(form: str) -> None:
    (entry,), _ = read(PUBLISHED[form])

    assert entry.weak_names == ("The Tailor",)
    assert entry.gender is Gender.MALE
    assert entry.addresses == ("Tehran, Iran",)


@pytest.mark.parametrize("form", ["ofac advanced", "ofac simple", "un", "eu", "uk"])
def test_the_date_of_a_list_is_its_publishers(form: str) -> None:
    _, reading = read(PUBLISHED[form])

    assert reading.source_date is not None
    assert reading.source_date.isoformat() == "2026-03-09"


@pytest.mark.parametrize(
    ("form", "date", "other"),
    [
        ("ofac advanced", "<Day>9</Day></DateOfIssue>", "<Day>9identifiers</Day></DateOfIssue>"),
        ("ofac advanced", "<Day>9</Day></DateOfIssue>", f"<Day>{'9' * 5_000}</Day></DateOfIssue>"),
        ("un", "<LISTED_ON>2026-03-09</LISTED_ON>", "<LISTED_ON>in spring</LISTED_ON>"),
        ("eu", 'generationDate="2026-03-09T', 'generationDate="2026-13-09T'),
        ("uk", "09-Mar-2026", "09-Mar-26"),
    ],
)
def test_a_list_whose_date_is_none_is_read_without_it(form: str, date: str, other: str) -> None:
    (entry,), reading = read(PUBLISHED[form].replace(date, other))

    assert (entry.entity_id, reading.source_date, reading.failed) == ("36", None, 0)


@pytest.mark.parametrize("form", ["ofac advanced", "eu"])
def test_an_entry_whose_birth_date_is_none_is_read_without_it(form: str) -> None:
    (entry,), _ = read(PUBLISHED[form].replace("<Year>1970", "<Year>no").replace('year="1970"', 'year="no"'))

    assert (entry.entity_id, entry.birth_dates) == ("36", ())


def test_ofac_csv_has_aliases_and_addresses_in_files_of_their_own() -> None:
    files = (BytesIO(text.encode()) for text in (OFAC_CSV, OFAC_CSV_ALIASES, OFAC_CSV_ADDRESSES))
    (entry,) = ofac_csv.read(*files).entries

    assert (entry.weak_names, entry.addresses) == (("The Tailor",), ("Tehran, Iran",))
    assert (entry.gender, entry.wallets) == (Gender.MALE, ("bc1qexample",))


@pytest.mark.parametrize("form", ["ofac advanced", "ofac simple"])
def test_wallets_are_read_and_are_no_documents(form: str) -> None:
    (entry,), _ = read(PUBLISHED[form])

    assert entry.wallets == ("bc1qexample",)


def test_an_opensanctions_entity_says_which_check_it_belongs_to() -> None:
    (entry,), _ = read(FTM)

    assert entry.checks == (CheckKind.SANCTIONS,)


@pytest.mark.parametrize(("aliases", "failed"), [(9_999, 0), (10_000, 1)])
def test_ten_thousand_names_of_one_entity_are_read_and_one_more_is_reported(
    aliases: int, failed: int
) -> None:
    alias = [f"Zafar \u200f\u202eQadoori {number}" for number in range(aliases)]
    entries, reading = read(FTM.replace('"weakAlias":["The Tailor"]', f'"alias":{json.dumps(alias)}'))

    assert [len(entry.names) for entry in entries] == [10_000] * (1 - failed)
    assert reading.failed == failed


@pytest.mark.parametrize("form", ["ofac advanced", "ofac simple", "un", "eu"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_half_a_file_is_refused(form: str, share: float) -> None:
    text = PUBLISHED[form]

    with pytest.raises(FormatUnreadable):
        read(text[: int(len(text) * share)])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<!DOCTYPE html><html><body>Service unavailable</body></html>",
        "<html><head></head></html>",
        "<other><sanctionEntity/></other>",
        "a,b,c\n1,2,3\n",
        "Unique ID,Other\n1,2\n",
        '<!DOCTYPE export [<!ENTITY x SYSTEM "file:///etc/hostname">]><export>&x;</export>',
        '<!DOCTYPE export [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><export>&b;</export>',
        "<export>" + "<a>" * 200 + "</a>" * 200 + "</export>",
        b"\xff\xfe<\x00e\x00x\x00",
        b"\x00\x01\x02",
        UK.replace("36,", '"36,', 1) + "x" * 200_000,
        UK.partition("\n")[2].replace("Unique ID", '"Unique ID' + "x" * 200_000),
        OFAC_CSV.replace("36,", '"36,', 1) + "x" * 200_000,
        OFAC_CSV.replace("\x1a", '"' + "x" * 200_000),
        SIMPLE_CSV.replace('"id"', '"id' + "x" * 200_000),
        SIMPLE_CSV.replace('"36"', '"36') + "x" * 200_000,
    ],
    ids=lambda text: f"{len(text)} long",
)
def test_another_document_is_refused(text: str | bytes) -> None:
    with pytest.raises(FormatUnreadable):
        read(text)


@pytest.mark.parametrize("part", ["Profile", "Identity"])
def test_a_party_of_ofac_that_lacks_a_part_is_counted(part: str) -> None:
    entries, reading = read(OFAC_ADVANCED.replace(f"<{part}", "<Other").replace(f"</{part}", "</Other"))

    assert (entries, reading.failed) == ([], 1)


def test_an_entry_without_a_name_is_counted_and_the_others_are_read() -> None:
    nameless = (
        FTM.replace("Zafar Qadoori", " " * 3) + '{"id":"x","schema":"Person","properties":7}\nno json\n'
    )

    entries, reading = read(nameless + FTM)

    assert [entry.entity_id for entry in entries] == ["36"]
    assert (reading.failed, reading.problems) == (2, ["line 3: ValueError", "line 4: JSONDecodeError"])


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("12 Mar 1970", ("1970-03-12",)),
        ("Mar 1970", ("1970-03",)),
        ("circa 1970", ("1970",)),
        ("1968 to 1970", ("1968", "1969", "1970")),
        ("between 1940-1970", ("1940", "1970")),
        ("12/03/1970", ("1970-03-12",)),
        ("00/00/1975", ("1975",)),
        ("dd/mm/1975", ("1975",)),
        ("1970-03-12", ("1970-03-12",)),
        ("31 Feb 1970", ("1970-02",)),
        ("unknown", ()),
        ("", ()),
    ],
)
def test_dates_are_read_at_their_precision(text: str, dates: tuple[str, ...]) -> None:
    assert partial_dates(text) == dates


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Iran (Islamic Republic of)", "IR"),
        ("KOREA, NORTH", "KP"),
        ("ru", "RU"),
        ("Côte d'Ivoire", "CI"),
        ("Mars", None),
    ],
)
def test_countries_are_read_by_code_and_name(text: str, code: str | None) -> None:
    assert country_code(text) == code


OURS_JSON = (
    '{"entity_id":"1","kind":"PERSON","names":["Zafar Qadoori"],"identifiers":[{"type":"id","value":"A-1"}]}'
)
OURS_CSV = "entity_id,kind,names,identifiers\n1,PERSON,Zafar Qadoori,id:A-1\n"


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (TextForm.NDJSON, OURS_JSON + "\n\n"),
        (TextForm.CSV, OURS_CSV),
        (TextForm.JSON, '{"entries":[' + OURS_JSON + "]}"),
    ],
)
def test_g116_a_tenants_list_is_read_in_three_forms(form: TextForm, text: str) -> None:
    (entry,) = read_entries(BytesIO(text.encode()), form, ListKind.NAMES, most=10)

    assert isinstance(entry, NameEntry)
    assert (entry.names, entry.identifiers) == (("Zafar Qadoori",), (Identifier(type="id", value="A-1"),))


@pytest.mark.parametrize(
    ("form", "text", "pointer", "line"),
    [
        (TextForm.NDJSON, OURS_JSON + "\n" + OURS_JSON.replace("PERSON", "CAT"), "/entries/1/kind", 2),
        (TextForm.NDJSON, OURS_JSON + "\n" + OURS_JSON, "/entries/1", 2),
        (TextForm.NDJSON, "[" * 100_000, "/entries/0", 1),
        (TextForm.NDJSON, "7", "/entries/0", 1),
        (TextForm.CSV, OURS_CSV + "2,PERSON,,\n", "/entries/1/names", 3),
        (TextForm.CSV, OURS_CSV + "2,PERSON,A,id:1,more\n", "/entries", 3),
        (TextForm.JSON, '{"entries":[{}]}', "/entries/0/entity_id", None),
        (TextForm.JSON, "{}", "/entries", None),
        (TextForm.JSON, "nothing", "", None),
        (TextForm.NDJSON, "\n".join(OURS_JSON.replace('"1"', f'"{at}"') for at in range(11)), "/entries", 11),
    ],
)
def test_g116_a_bad_entry_is_named_by_pointer_and_line(
    form: TextForm, text: str, pointer: str, line: int | None
) -> None:
    with pytest.raises(EntriesInvalid) as found:
        read_entries(BytesIO(text.encode()), form, ListKind.NAMES, most=10)

    assert (found.value.errors[0].pointer, found.value.errors[0].line) == (pointer, line)
