"""Legal forms of organisations by their spellings, after transliteration; facts, gathered by us."""

from functools import lru_cache
from typing import Final

from rapidfuzz.distance import OSA

_FORMS: Final = """
llc: llc|l l c|limited liability company|limited liability co|ooo
llc: obshchestvo s ogranichennoi otvetstvennostiu|obshchestvo s ogranichennoy otvetstvennostyu
llc: obshchestvo s ogranichennoj otvetstvennostju|tov|too|mchj|doo|d o o
llc: obshchestvo s ogranichennoi otvetstvennostyu|tovaristvo z obmezhenoyu vidpovidalnistyu
llc: obschestvo s ogranichennoy otvetstvennostyu|tovarystvo z obmezhenoyu vidpovidalnistyu|sia|uab|ou|fze
llc: fzc|fzco
ltd: ltd|limited|ltda|limitada|pvt ltd|private limited|pte ltd|pty ltd|pty limited|co ltd|co limited
ltd: company limited|private ltd|ltee|limitee|lda|sendirian berhad|sdn bhd|pte|pvt|pty
gmbh: gmbh|gesellschaft mit beschrankter haftung|gmbh co kg|gesmbh|mbh
ag: ag|akg|aktiengesellschaft|aktiengeselschaft
se: se|societas europaea
kg: kg|kommanditgesellschaft
sa: sa|s a|sociedad anonima|societe anonyme|sociedade anonima|spolka akcyjna|societa anonima|soc anonima
sas: sas|s a s|societe par actions simplifiee|sociedad por acciones simplificada
sarl: sarl|s a r l|societe a responsabilite limitee|eurl
srl: srl|s r l|societatea cu raspundere limitata|societa a responsabilita limitata
srl: sociedad de responsabilidad limitada
sl: sl|s l|sociedad limitada|slu
sadecv: sa de cv|s a de c v|sociedad anonima de capital variable|sapi de cv
spa: spa|s p a|societa per azioni
spzoo: sp z o o|sp zoo|spolka z ograniczona odpowiedzialnoscia|sp z oo
sro: sro|s r o|spol s r o
bv: bv|b v|besloten vennootschap
nv: nv|n v|naamloze vennootschap
ab: ab|aktiebolag
as: as|a s|aksjeselskap|aktieselskab|anonim sirketi
oy: oy|oyj|osakeyhtio
plc: plc|p l c|public limited company
inc: inc|incorporated
corp: corp|corporation|korporatsiya
co: co|company|kompaniya|compagnie|compania|cie
lp: lp|limited partnership|llp|limited liability partnership
jsc: jsc|joint stock company|joint stock co|oao|ojsc|open joint stock company|pao|pjsc
jsc: public joint stock company|zao|cjsc|closed joint stock company|otkrytoe aktsionernoe obshchestvo
jsc: zakrytoe aktsionernoe obshchestvo|ao|pjs|aktsionernoe obshchestvo|publichnoe aktsionernoe obshchestvo
jsc: akcionerno druzestvo|joint stock|psc|p j s c|aktsionernoye obshchestvo
jsc: publichnoye aktsionernoye obshchestvo|otkrytoye aktsionernoye obshchestvo|private joint stock
kk: kk|kabushiki kaisha|kabushiki gaisha
bhd: bhd|berhad
pt: pt|tbk|perseroan terbatas
fgup: fgup|federalnoe gosudarstvennoe unitarnoe predpriyatie|federal state unitary enterprise|gup
ano: ano|autonomous non profit organization|avtonomnaya nekommercheskaya organizatsiya
trust: trust
foundation: foundation|stiftung|fond|fonden|fundacion|fondation
holding: holding|holdings
group: group|gruppe|groupe|grupo|gruppa
"""

FORMS: Final[dict[tuple[str, ...], str]] = {
    tuple(spelling.split()): name
    for line in _FORMS.strip().splitlines()
    for name, _, spellings in [line.partition(": ")]
    for spelling in spellings.split("|")
}
"""The words of each spelling, and the form they stand for; forms of the same rank share a name."""

LONGEST: Final = max(map(len, FORMS))

SECTOR_FORMS: Final = frozenset({"trust", "foundation", "holding", "group", "ano"})
"""Forms that tell organisations apart: a bank and its trust company are two."""

_LEAST_CHARS: Final = 5
"""A shorter word with an error in it may be anything."""

_LONG_WORDS: Final = {
    spelling[0]: form
    for spelling, form in FORMS.items()
    if len(spelling) == 1 and len(spelling[0]) >= _LEAST_CHARS
}


@lru_cache(maxsize=65_536)
def misspelt_form(word: str) -> str:
    """Return the form whose only word this is but for one error; empty for none."""
    if len(word) < _LEAST_CHARS:
        return ""
    return next(
        (form for known, form in _LONG_WORDS.items() if OSA.distance(word, known, score_cutoff=1) <= 1), ""
    )
