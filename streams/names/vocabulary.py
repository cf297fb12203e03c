"""Words of names with a meaning of their own: titles, particles, short forms of given names, numbers."""

from typing import Final

_TITLES: Final = """
mr mrs ms miss mister mx dr doctor prof professor sir lady lord dame madam madame monsieur mme mlle herr
frau president prasident presidente minister general gen colonel col major maj captain capt lieutenant lt
sergeant sgt admiral brigadier brig commander senator governor judge justice hon honourable honorable
excellency rev reverend father fr sister mullah mawlawi maulvi maulana mufti imam ayatollah hojatoleslam
sheikh shaikh shaykh sheik shekh haji hajji hadji hajj al-hajj alhaji ustad ustaz qari hafiz sayyid sayed
syed said prince princess king queen emir amir engineer eng ing esq jr sr junior senior ii iii iv phd md
shri smt tun tan datuk dato don dona
"""

TITLES: Final = frozenset(_TITLES.split())
"""Words before or after the name of a person; they say little about who it is."""

_PARTICLES: Final = """
al el ul ad as ar an at az bin ben ibn bint binti ould abu abou umm de del della di da das dos do du la le
las los van von der den ter ten zu zur und y e i o oglu ogly kyzy qizi gizi uly the of st san
"""

PARTICLES: Final = frozenset(_PARTICLES.split())
"""Short words inside the names of persons."""

_STOP_WORDS: Final = """
the of and for in on at to de del des du la le les los las el al y e et und der die das den von da do dos
di della i o a an s mv mt ms ss vessel ship m/v intl international
"""

STOP_WORDS: Final = frozenset(_STOP_WORDS.split())
"""Words inside the names of organisations and ships that say little."""

_COMMON_ORGANISATION_WORDS: Final = """
bank trading trade general industries industry industrial services service company development investment
investments import export shipping marine maritime lines line transport logistics petroleum oil gas energy
engineering construction technology technologies systems system national international global world state
center centre institute research university association organization organisation society union federation
council committee office department ministry government army party movement front brigade factory plant
works enterprise enterprises agency airlines airways aviation air insurance finance financial capital fund
management consulting media electronics electric power chemical steel metal mining foods food products
supply supplies equipment commercial islamic charity relief security military defense defence scientific
production new first united central east west north south eastern western northern southern islamic people
peoples china iran russia syria korea iraq lebanon sudan venezuela cuba america american russian iranian
chinese europe european asia asian africa african pacific atlantic british german french turkish indian
kingdom states dubai moscow tehran damascus beijing shanghai hong kong turkey istanbul gulf middle
"""

COMMON_ORGANISATION_WORDS: Final = frozenset(_COMMON_ORGANISATION_WORDS.split())
"""Words that many organisations share: they weigh as common names do."""

_SAME_GIVEN_NAME: Final = """
muhammad mohammed mohammad muhammed mohamed mohamad mohd mehmet mahomed muhamad mamadou magomed
ahmad ahmed achmad akhmed ahmet
yusuf yousef youssef yousuf yusef iosif joseph josef jose giuseppe yosef osip
ibrahim ebrahim abraham avraham abram brahim
ali aly
hussein husain hussain husayn hossein husein houssein hoseyn khusein
hassan hasan hassane
abdullah abdallah abdulla abdollah abdoulaye
abd abdul abdel abdal abdol
osama usama ousama
qasim qassem kassem qasem kasim ghasem gasem
said saeed saied saeid sayid
khalid khaled halid
omar umar umer oumar
sulayman suleiman soleiman sulaiman solomon suleyman
ismail esmail ismael isma
mustafa mostafa moustafa mustapha
mahmoud mahmud mehmood mahmood
rashid rasheed rachid
yahya yehia yahia
isa issa eisa essa
musa moussa mousa moses moshe
bashir basheer bachir
jamal gamal djamel cemal
aleksandr alexander alexandr aleksander alejandro alessandro alexandre aliaksandr oleksandr
aleksandr iskander
alex alexander aleksandr
sasha alexander aleksandr
sergei sergey serhiy siarhei sergej serge sergio sergejs serhii
dmitri dmitry dmitriy dmytro dzmitry dimitri dmitrii
andrei andrey andriy andrew andreas andres andre andrzej andrea andrej andrii
vladimir volodymyr wladimir uladzimir
mikhail michael mykhailo miguel michel mihail michal mikael mykhaylo
mike michael
nikolai nikolay mykola nicholas nicolas nikolaos nicola nikola mikalai
nick nicholas nicolas
aleksei alexei aleksey alexey oleksiy aliaksei
yevgeny evgeny evgenii yevgeniy eugene yevhen eugenio eugen
yuri yury yuriy iurii jurij
igor ihor
oleg oleh
ivan john juan jean johann hans giovanni joao jan ian johannes
jack john
jon john jonathan
pavel paul pablo pavlo paolo pawel paulo
petr peter pedro pierre pyotr petro pietro piotr
georgi george jorge georg giorgio georges georgy heorhii yuri
william bill billy will liam guillermo guillaume wilhelm willem
robert bob bobby rob roberto
richard dick rick ricardo riccardo
james jim jimmy jaime jacques
edward ed eddie ted eduardo edouard eduard
theodore ted theo teodoro
charles charlie chuck carlos karl carl carlo
thomas tom tommy tomas
benjamin ben benny bibi
daniel dan danny danilo
david dave davide
anthony tony antonio anton antoine
christopher chris christoph cristobal
joseph joe joey
frank francis francisco francesco franz
stephen steven steve stefan esteban stephan
matthew matt mateo matthias matteo matthieu
lawrence larry lorenzo laurent
henry harry enrique heinrich henri
frederick fred frederic friedrich federico
samuel sam sammy
barack barry
elizabeth liz beth elisabeth isabel isabella betty
catherine katherine kate kathy catalina ekaterina katarina yekaterina
margaret maggie peggy margarita
mary maria marie mariam maryam miriam
anna anne ana ann hannah
helen elena olena helena yelena
natalia nataliya natalya natalie
tatiana tatyana tetiana
olga olha
kseniya xenia oksana
xi shi
"""

GIVEN_NAME_GROUPS: Final[dict[str, frozenset[int]]] = {}
"""The groups of spellings and short forms of one given name that a word belongs to."""

for _number, _line in enumerate(_SAME_GIVEN_NAME.strip().splitlines()):
    for _word in _line.split():
        GIVEN_NAME_GROUPS[_word] = GIVEN_NAME_GROUPS.get(_word, frozenset()) | {_number}

_NUMBERS: Final = """
zero|one first 1st|two second 2nd|three third 3rd|four fourth 4th|five fifth 5th|six sixth 6th|seven
seventh 7th|eight eighth 8th|nine ninth 9th|ten tenth 10th|eleven eleventh|twelve
twelfth|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|twenty twentieth
"""

NUMBER_WORDS: Final[dict[str, str]] = {
    word: str(number)
    for number, words in enumerate(" ".join(_NUMBERS.split()).split("|"))
    for word in words.split()
}
"""Number words of organisations and ships as digits."""

_ROMAN: Final = "ii iii iv v vi vii viii ix x xi xii xiii xiv xv xvi xvii xviii xix xx"

ROMAN_NUMERALS: Final = {word: str(number) for number, word in enumerate(_ROMAN.split(), start=2)}
"""Behind the name of a fund or a ship."""

TENS: Final = {
    "twenty": 20, "thirty": 30, "forty": 40, "fourty": 40, "fifty": 50, "sixty": 60, "seventy": 70,
    "eighty": 80, "ninety": 90,
}  # fmt: skip
