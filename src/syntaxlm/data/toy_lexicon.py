"""The built-in fragment of English: its rules, and its words by class, in order of decreasing frequency.

RULES is a table of lines `category -> weight children | weight children ...`. A child is a category or a literal word
with its tag (`that_IN`). `*` marks the head child; an only child is the head. Every other child is followed by `/` and
the relation of its head word to the head word of the rule. The weights of a category are normalised over all of its
lines. A feature of one letter is a variable of FEATURES. On the left, it matches each of its values. If it occurs only
on the right, the weight of the alternative is divided among its values in the proportions of FEATURES. A category that
is not in LABELS is transparent: its children are attached to the constituent above.

In the word tables, a class is a line of lemmas. Irregular forms follow the lemma: `singular:plural` for nouns and
`base:past:participle:ing` for verbs. Regular fields at the end are omitted, and a missing participle equals the past.
Within a class, the word of rank r has weight 1 / r (Zipf's law). All nouns and adjectives begin with consonants, so
that "a" never has to become "an".
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

FEATURES: dict[str, dict[str, float]] = {
    # n number, t tense of "be", f verb form, a adverb class
    "n": {"sg": 0.6, "pl": 0.4},
    "t": {"present": 0.5, "past": 0.5},
    "f": dict.fromkeys(("sg", "pl", "base", "past", "done", "ing"), 1.0),
    "a": dict.fromkeys(("manner", "often", "sentence"), 1.0),
    # Noun classes: c all, o all except persons, g those that an object relative clause can modify, m agents.
    "c": dict.fromkeys(("person", "animal", "thing", "furniture", "tool", "food", "place", "idea"), 1.0),
    "o": dict.fromkeys(("animal", "thing", "furniture", "tool", "food", "place", "idea"), 1.0),
    "g": dict.fromkeys(("person", "animal", "thing", "tool", "food", "place", "idea"), 1.0),
    "m": dict.fromkeys(("person", "animal"), 1.0),
    # Verb classes: r transitive, i intransitive.
    "r": dict.fromkeys(("read", "make", "eat", "cook", "see", "like", "visit", "please"), 1.0),
    "i": dict.fromkeys(("laugh", "sleep", "growl", "fall", "matter"), 1.0),
}

LABELS: dict[str, str] = {
    **dict.fromkeys(("TOP", "CLAUSE", "RELVP", "GAPPED", "TOVP"), "S"),
    **dict.fromkeys(("SUBJ", "OBJ", "NP", "CONJUNCT", "NPB", "POSS", "NPTIME"), "NP"),
    **dict.fromkeys(("VP", "FIN", "PRED", "MISS", "LACK", "INF"), "VP"),
    **dict.fromkeys(("PPLOC", "PPFROM", "PPON", "PPOF", "PPTO", "PPWITH", "PPTOOL", "PPABOUT", "PPTIME"), "PP"),
    **dict.fromkeys(("WHEN", "THAT", "REL"), "SBAR"),
    "ADVP": "ADVP",
    "ADJP": "ADJP",
    "WHO": "WHNP",
}

RULES = """
TOP            -> 66 BODY | 6 ADVP[sentence]/advmod BODY* | 5 PPTIME/obl BODY* | 4 PPLOC/obl BODY*
TOP            -> 6 WHEN/advcl BODY* | 7 CLAUSE* CLAUSETAIL/conj
CLAUSETAIL     -> 1 Conj/cc CLAUSE*
CLAUSE         -> 1 BODY
BODY           -> 60 SUBJ[person,n]/nsubj VP[person,n]* | 14 SUBJ[animal,n]/nsubj VP[animal,n]*
BODY           -> 5 SUBJ[thing,n]/nsubj VP[thing,n]* | 3 SUBJ[furniture,n]/nsubj VP[furniture,n]*
BODY           -> 3 SUBJ[tool,n]/nsubj VP[tool,n]* | 3 SUBJ[food,n]/nsubj VP[food,n]*
BODY           -> 4 SUBJ[place,n]/nsubj VP[place,n]* | 8 SUBJ[idea,n]/nsubj VP[idea,n]*
WHEN           -> 1 Sub/mark CLAUSE*
ADVP[a]        -> 1 Adv[a]

SUBJ[c,n]      -> 52 NPB[c,n] | 8 NPB[c,n]* PPMOD[c]/nmod | 6 NPB[c,n]* REL[c,n]/acl:relcl
SUBJ[c,pl]     -> 9 CONJUNCT[c]* NPTAIL[c]/conj
SUBJ[person,sg] -> 24 Name[person]
SUBJ[person,n] -> 30 SubjPron[person,n]
SUBJ[place,sg] -> 16 Name[place]
SUBJ[o,n]      -> 8 SubjPron[other,n]
OBJ[person]    -> 84 NP[person,n] | 16 ObjPron[person]
OBJ[o]         -> 94 NP[o,n] | 6 ObjPron[other]

NP[c,n]        -> 66 NPB[c,n] | 16 NPB[c,n]* PPMOD[c]/nmod | 7 NPB[c,n]* REL[c,n]/acl:relcl
NP[person,sg]  -> 22 Name[person]
NP[place,sg]   -> 16 Name[place]
NP[c,pl]       -> 10 CONJUNCT[c]* NPTAIL[c]/conj
NPTAIL[c]      -> 1 And/cc CONJUNCT[c]*
CONJUNCT[c]    -> 1 NPB[c,n]
CONJUNCT[person] -> 1 Name[person]
NPB[c,n]       -> 72 Det[n]/det NOM[c,n]* | 8 Own/nmod:poss NOM[c,n]*
NPB[o,n]       -> 6 POSS/nmod:poss NOM[o,n]*
NPB[c,pl]      -> 8 NOM[c,pl] | 8 Num/nummod NOM[c,pl]*
NOM[c,n]       -> 72 Noun[c,n] | 25 Adj[c]/amod Noun[c,n]* | 3 Adj[c]/amod Adj[c]/amod Noun[c,n]*
POSS           -> 5 Name[person]* 's_POS/case | 5 Det[sg]/det NOM[person,sg]* 's_POS/case

PPMOD[person]  -> 4 PPFROM | 3 PPLOC | 3 PPWITH
PPMOD[animal]  -> 6 PPLOC | 2 PPWITH | 2 PPON
PPMOD[thing]   -> 4 PPLOC | 3 PPON | 3 PPFROM
PPMOD[furniture] -> 7 PPLOC | 3 PPOF
PPMOD[tool]    -> 6 PPON | 4 PPLOC
PPMOD[food]    -> 6 PPON | 4 PPFROM
PPMOD[place]   -> 6 PPLOC | 4 PPOF
PPMOD[idea]    -> 7 PPABOUT | 3 PPOF
PPLOC          -> 1 Prep[loc]/case NP[place,n]*
PPFROM         -> 1 from_IN/case NP[place,n]*
PPON           -> 1 Prep[on]/case NP[furniture,n]*
PPOF           -> 1 of_IN/case NP[person,n]*
PPTO[c]        -> 1 to_TO/case NP[c,n]*
PPWITH         -> 7 with_IN/case NP[tool,n]* | 2 with_IN/case NP[animal,n]* | 3 with_IN/case NP[person,n]*
PPTOOL         -> 1 with_IN/case NP[tool,n]*
PPABOUT        -> 4 about_IN/case NP[person,n]* | 3 about_IN/case NP[animal,n]* | 2 about_IN/case NP[place,n]*
PPTIME         -> 5 in_IN/case NPTIME[season]* | 4 Prep[event]/case NPTIME[event]* | 3 Prep[meal]/case NPTIME[meal]*
NPTIME[season] -> 1 Det[time]/det Noun[season,sg]*
NPTIME[event]  -> 1 Det[time]/det Noun[event,sg]*
NPTIME[meal]   -> 1 Noun[meal,sg]

REL[c,n]       -> 58 WHO[c]/nsubj RELVP[c,n]*
REL[g,n]       -> 27 WHO[g]/obj GAPPED[g]* | 15 GAPPED[g]
WHO[person]    -> 8 who_WP | 2 that_WDT
WHO[o]         -> 7 that_WDT | 3 which_WDT
RELVP[c,n]     -> 1 VP[c,n]
GAPPED[g]      -> 1 SUBJ[person,n]/nsubj MISS[person,g,n]*
GAPPED[animal] -> 1 SUBJ[animal,n]/nsubj MISS[animal,animal,n]*
GAPPED[person] -> 0.3 SUBJ[animal,n]/nsubj MISS[animal,person,n]*
GAPPED[food]   -> 0.5 SUBJ[animal,n]/nsubj MISS[animal,food,n]*
MISS[m,g,n]    -> 4 LACK[m,g,n] | 5 LACK[m,g,past] | 1 Modal/aux LACK[m,g,base]* | 1 Have[n]/aux LACK[m,g,done]*
LACK[m,g,f]    -> 84 LACKV[m,g,f] | 8 LACKV[m,g,f]* PPLOC/obl | 8 LACKV[m,g,f]* PPTIME/obl
LACKV[person,person,f] -> 5 Verb[like,f] | 3 Verb[see,f] | 2 Verb[tell,f]
LACKV[person,animal,f] -> 6 Verb[see,f] | 4 Verb[like,f]
LACKV[person,thing,f]  -> 7 Verb[make,f] | 2 Verb[like,f] | 1 Verb[put,f]
LACKV[person,tool,f]   -> 8 Verb[make,f] | 2 Verb[put,f]
LACKV[person,food,f]   -> 5 Verb[eat,f] | 4 Verb[cook,f] | 1 Verb[put,f]
LACKV[person,place,f]  -> 8 Verb[visit,f] | 2 Verb[like,f]
LACKV[person,idea,f]   -> 9 Verb[read,f] | 1 Verb[like,f]
LACKV[animal,food,f]   -> 1 Verb[eat,f]
LACKV[animal,person,f] -> 1 Verb[see,f]
LACKV[animal,animal,f] -> 1 Verb[see,f]

VP[c,n]        -> 94 FIN[c,n] | 6 FIN[c,n]* VPTAIL[c,n]/conj
VPTAIL[c,n]    -> 1 Conj/cc FIN[c,n]*
FIN[c,n]       -> 22 PRED[c,n] | 34 PRED[c,past] | 13 Modal/aux PRED[c,base]* | 8 Have[n]/aux PRED[c,done]*
FIN[c,n]       -> 9 Be[n,t]/aux PRED[c,ing]* | 4 Do[n]/aux not_RB/advmod PRED[c,base]*
FIN[c,n]       -> 10 Be[n,t]/cop ADJP[c]* | 3 Be[n,t]/cop PPLOC*
ADJP[c]        -> 8 Adj[c] | 2 very_RB/advmod Adj[c]*
PRED[c,f]      -> 52 ACT[c,f] | 8 ACT[c,f]* PPLOC/obl | 6 ACT[c,f]* PPTIME/obl | 2 ACT[c,f]* WHEN/advcl
PRED[c,f]      -> 3 ACT[c,f]* PPLOC/obl PPTIME/obl
PRED[m,f]      -> 9 ACT[m,f]* ADVP[manner]/advmod | 6 ADVP[often]/advmod ACT[m,f]*
PRED[person,f] -> 5 ACT[person,f]* PPWITH/obl

ACT[person,f]  -> 11 CORE[say,f] | 4 CORE[tell,f] | 9 CORE[give,f] | 8 CORE[read,f] | 10 CORE[make,f] | 5 CORE[eat,f]
ACT[person,f]  -> 5 CORE[cook,f] | 11 CORE[see,f] | 9 CORE[like,f] | 9 CORE[go,f] | 7 CORE[laugh,f] | 2 CORE[sleep,f]
ACT[person,f]  -> 9 CORE[try,f] | 5 CORE[put,f] | 6 CORE[visit,f] | 2 CORE[please,f]
ACT[animal,f]  -> 20 CORE[eat,f] | 30 CORE[see,f] | 16 CORE[go,f] | 14 CORE[sleep,f] | 14 CORE[growl,f]
ACT[animal,f]  -> 6 CORE[please,f]
ACT[thing,f]   -> 5 CORE[fall,f] | 3 CORE[stand,f] | 2 CORE[please,f]
ACT[furniture,f] -> 4 CORE[fall,f] | 6 CORE[stand,f]
ACT[tool,f]    -> 7 CORE[fall,f] | 3 CORE[stand,f]
ACT[food,f]    -> 6 CORE[fall,f] | 4 CORE[please,f]
ACT[place,f]   -> 7 CORE[stand,f] | 3 CORE[matter,f]
ACT[idea,f]    -> 6 CORE[please,f] | 4 CORE[matter,f]

CORE[say,f]    -> 6 Verb[say,f]* THAT/ccomp | 4 Verb[say,f]* CLAUSE/ccomp
CORE[tell,f]   -> 1 Verb[tell,f]* OBJ[person]/obj THAT/ccomp
CORE[give,f]   -> 6 Verb[give,f]* OBJ[person]/iobj GIFT/obj | 4 Verb[give,f]* GIFT/obj PPTO[person]/obl
CORE[r,f]      -> 1 Verb[r,f]* THEME[r]/obj
CORE[read,f]   -> 0.2 Verb[read,f]
CORE[eat,f]    -> 0.2 Verb[eat,f] | 0.1 Verb[eat,f]* THEME[eat]/obj PPTOOL/obl
CORE[make,f]   -> 0.3 Verb[make,f]* THEME[make]/obj PPTOOL/obl
CORE[i,f]      -> 1 Verb[i,f]
CORE[go,f]     -> 3 Verb[go,f] | 5 Verb[go,f]* PPTO[place]/obl | 2 Verb[go,f]* PPFROM/obl
CORE[stand,f]  -> 2 Verb[stand,f] | 5 Verb[stand,f]* PPLOC/obl | 3 Verb[stand,f]* PPON/obl
CORE[try,f]    -> 1 Verb[try,f]* TOVP/xcomp
CORE[put,f]    -> 1 Verb[put,f]* MOVED/obj PPON/obl
THAT           -> 1 that_IN/mark CLAUSE*
TOVP           -> 1 INF
INF            -> 1 to_TO/mark PRED[person,base]*

THEME[read]    -> 1 OBJ[idea]
THEME[make]    -> 6 OBJ[thing] | 3 OBJ[tool] | 2 OBJ[furniture]
THEME[eat]     -> 1 OBJ[food]
THEME[cook]    -> 1 OBJ[food]
THEME[see]     -> 5 OBJ[person] | 5 OBJ[animal] | 1 OBJ[thing]
THEME[like]    -> 5 OBJ[person] | 2 OBJ[animal] | 2 OBJ[idea] | 2 OBJ[place] | 1 OBJ[food]
THEME[visit]   -> 8 OBJ[place] | 2 OBJ[person]
THEME[please]  -> 1 OBJ[person]
GIFT           -> 4 NP[idea,n] | 3 NP[thing,n] | 2 NP[food,n] | 1 NP[tool,n] | 1 NP[animal,n]
MOVED          -> 4 OBJ[thing] | 4 OBJ[tool] | 3 OBJ[food] | 2 OBJ[idea]
"""


_CHILD = re.compile(r"(?P<symbol>[^*/\s]+)(?P<head>\*)?(?:/(?P<relation>\S+))?")


@dataclass(frozen=True)
class Rule:
    """One rule of a grammar, with expanded features.

    head: 0-based index of the head child.  relations: one relation per child, "" for the head.
    """

    category: str
    children: tuple[str, ...]
    probability: float
    head: int
    relations: tuple[str, ...]


@dataclass(frozen=True)
class LexicalCategory:
    """The tag and the words of one preterminal. The probabilities of the words sum to 1."""

    tag: str
    words: tuple[str, ...]
    probabilities: tuple[float, ...]


NOUNS = {
    "person": "man:men woman:women child:children girl boy teacher doctor student farmer mother father friend lawyer"
    " neighbor sister brother nurse soldier writer singer painter king thief:thieves sailor baker judge",
    "animal": "dog cat horse bird wolf:wolves cow mouse:mice rabbit fox bear pig lion goat duck",
    "thing": "car boat picture coat clock hat bicycle piano basket bottle shirt lamp wagon door",
    "furniture": "table chair bed box desk shelf:shelves bench sofa carpet",
    "tool": "knife:knives telescope hammer stick camera rope spoon brush bucket shovel needle",
    "food": "cake potato sandwich pie cookie carrot banana tomato pear biscuit",
    "place": "house city garden park school river village church market forest street kitchen station museum"
    " bridge farm hospital library castle beach",
    "idea": "book letter story song plan question poem message report problem joke secret theory rumor decision",
    "season": "morning summer winter night week spring",
    "event": "war storm meeting party journey game wedding",
}

MEALS = "lunch breakfast dinner school work"

NAMES = {
    "person": "john mary peter anna david sarah paul julia martin helen simon laura oscar emma",
    "place": "london paris rome boston berlin tokyo",
}

ADJECTIVES = {
    "person": "young tall happy poor famous rich brave tired clever kind lonely busy",
    "animal": "big small brown hungry wild black lazy quiet thin",
    "thing": "new red small broken cheap heavy blue dirty beautiful",
    "furniture": "small wooden heavy large brown clean low",
    "tool": "sharp new long rusty heavy broken tiny",
    "food": "fresh sweet warm delicious rotten cold salty",
    "place": "large quiet small famous dark beautiful busy distant",
    "idea": "long good strange new terrible funny difficult simple secret",
}

VERBS = {
    "say": "say:said think:thought know:knew:known believe hope claim hear:heard notice suspect imagine",
    "tell": "tell:told remind warn convince assure",
    "give": "give:gave:given send:sent show:showed:shown offer bring:brought sell:sold lend:lent",
    "read": "read:read write:wrote:written forget:forgot:forgotten:forgetting explain discuss describe study ignore",
    "make": "buy:bought make:made break:broke:broken use fix carry lose:lost paint build:built clean repair borrow",
    "eat": "eat:ate:eaten taste steal:stole:stolen smell swallow",
    "cook": "cook bake serve prepare burn order",
    "see": "see:saw:seen watch follow find:found hear:heard chase catch:caught bite:bit:bitten",
    "like": "like love need remember hate miss admire trust",
    "go": "go:went:gone come:came:come walk run:ran:run:running travel return hurry swim:swam:swum:swimming",
    "laugh": "laugh smile work sing:sang:sung wait dance cry talk whisper",
    "sleep": "sleep:slept rest dream wait hide:hid:hidden breathe",
    "growl": "bark play growl howl hunt",
    "fall": "fall:fell:fallen break:broke:broken disappear vanish burn crack",
    "stand": "stand:stood lie:lay:lain:lying remain sit:sat:sat:sitting",
    "matter": "matter change fail grow:grew:grown spread:spread end continue",
    "please": "surprise please frighten help worry bore annoy delight",
    "try": "want try decide hope refuse plan:planned:planned:planning promise agree learn",
    "put": "put:put:put:putting leave:left hide:hid:hidden drop:dropped:dropped:dropping throw:threw:thrown keep:kept",
    "visit": "visit leave:left enter reach cross avoid",
}

VERB_TAGS = {"sg": "VBZ", "pl": "VBP", "base": "VB", "past": "VBD", "done": "VBN", "ing": "VBG"}

# Closed classes: preterminal, tag, words.
CLOSED = """
Det[sg]             DT    the a this every that no
Det[pl]             DT    the some these all those
Det[time]           DT    the that this every
Num                 CD    two three four five ten
Own                 PRP$  his her their our your its
SubjPron[person,sg] PRP   he she
SubjPron[person,pl] PRP   they we you
SubjPron[other,sg]  PRP   it
SubjPron[other,pl]  PRP   they
ObjPron[person]     PRP   him her them us you
ObjPron[other]      PRP   it them
Modal               MD    will can would could must should may might
Have[sg]            VBZ   has
Have[pl]            VBP   have
Be[sg,present]      VBZ   is
Be[pl,present]      VBP   are
Be[sg,past]         VBD   was
Be[pl,past]         VBD   were
Do[sg]              VBZ   does
Do[pl]              VBP   do
And                 CC    and
Conj                CC    and but or
Prep[loc]           IN    in near at outside behind around
Prep[on]            IN    on under beside behind
Prep[event]         IN    during after before
Prep[meal]          IN    after before
Sub                 IN    because while if before after although since
Adv[manner]         RB    quickly slowly quietly carefully happily suddenly sadly gently
Adv[often]          RB    often never always usually also rarely still
Adv[sentence]       RB    sometimes perhaps today yesterday however soon
"""


def plural(noun: str) -> str:
    """Return the regular plural of a noun or the regular third person singular of a verb."""
    if noun.endswith(("s", "x", "z", "ch", "sh", "o")) and noun != "piano":
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def verb_forms(entry: str) -> dict[str, str]:
    """Return the six forms of a verb entry such as "give:gave:given". The keys are those of VERB_TAGS."""
    base, *irregular = entry.split(":")
    stem = base[:-1] if base.endswith("e") else base
    past = base[:-1] + "ied" if base.endswith("y") and base[-2] not in "aeiou" else stem + "ed"
    ing = (base if base.endswith("ee") else stem) + "ing"
    if irregular:
        past = irregular[0]
    done = irregular[1] if len(irregular) > 1 else past
    if len(irregular) > 2:
        ing = irregular[2]
    third = plural(base)
    return {"sg": third, "pl": base, "base": base, "past": past, "done": done, "ing": ing}


def zipf(tag: str, words: list[str]) -> LexicalCategory:
    """Build a lexical category in which the word of rank r (1-based) has a probability proportional to 1 / r."""
    total = sum(1 / rank for rank in range(1, len(words) + 1))
    return LexicalCategory(tag, tuple(words), tuple(1 / rank / total for rank in range(1, len(words) + 1)))


def english_lexicon() -> dict[str, LexicalCategory]:
    """Return all preterminals of the fragment, such as "Noun[person,sg]" or "Verb[say,past]", with their words."""
    lexicon: dict[str, LexicalCategory] = {}
    for kind, line in NOUNS.items():
        entries = [entry.split(":") for entry in line.split()]
        lexicon[f"Noun[{kind},sg]"] = zipf("NN", [entry[0] for entry in entries])
        plurals = [entry[1] if len(entry) > 1 else plural(entry[0]) for entry in entries]
        lexicon[f"Noun[{kind},pl]"] = zipf("NNS", plurals)
    lexicon["Noun[meal,sg]"] = zipf("NN", MEALS.split())
    for kind, line in NAMES.items():
        lexicon[f"Name[{kind}]"] = zipf("NNP", line.split())
    for kind, line in ADJECTIVES.items():
        lexicon[f"Adj[{kind}]"] = zipf("JJ", line.split())
    for kind, line in VERBS.items():
        verbs = [verb_forms(entry) for entry in line.split()]
        for form, tag in VERB_TAGS.items():
            lexicon[f"Verb[{kind},{form}]"] = zipf(tag, [verb[form] for verb in verbs])
    for row in CLOSED.strip().splitlines():
        name, tag, *words = row.split()
        lexicon[name] = zipf(tag, words)
    return lexicon


@dataclass(frozen=True)
class _Alternative:
    weight: float
    symbols: tuple[str, ...]
    head: int
    relations: tuple[str, ...]


def read_rules(table: str, features: Mapping[str, Mapping[str, float]], start: str) -> list[Rule]:
    """Return the rules reachable from `start`, with expanded features and normalised weights.

    table: lines in the notation of RULES. A category without a line has no rule and must be in the lexicon.
    Raises ValueError for a malformed line, with its number.
    """
    lines: dict[str, list[tuple[list[str], list[_Alternative]]]] = defaultdict(list)
    for number, line in enumerate(table.splitlines(), 1):
        if line.strip():
            left, arrow, right = line.partition("->")
            if not arrow:
                raise ValueError(f"rule table, line {number}: expected `category -> ...`, found {line.strip()!r}")
            name, arguments = _split_symbol(left.strip())
            lines[name].append((arguments, [_read_alternative(part, number) for part in right.split("|")]))
    rules: list[Rule] = []
    seen = {start}
    agenda = [start]
    while agenda:
        category = agenda.pop()
        weights: dict[tuple[tuple[str, ...], int, tuple[str, ...]], float] = defaultdict(float)
        name, values = _split_symbol(category)
        for arguments, alternatives in lines.get(name, []):
            binding = _match(arguments, values, features)
            for alternative in alternatives if binding is not None else []:
                for weight, children in _instances(alternative, binding or {}, features):
                    weights[children, alternative.head, alternative.relations] += weight
        total = sum(weights.values())
        for (children, head, relations), weight in weights.items():
            rules.append(Rule(category, children, weight / total, head, relations))
            fresh = [child for child in dict.fromkeys(children) if child not in seen]
            seen.update(fresh)
            agenda.extend(fresh)
    return rules


def _split_symbol(symbol: str) -> tuple[str, list[str]]:
    """Split a symbol such as "NP[person,sg]" into its name and its features."""
    name, bracket, inside = symbol.partition("[")
    return name, inside.rstrip("]").split(",") if bracket else []


def _read_alternative(text: str, line: int) -> _Alternative:
    weight, *children = text.split() or [""]
    matches = [_CHILD.fullmatch(child) for child in children]
    heads = [index for index, match in enumerate(matches) if match and (match["head"] or len(matches) == 1)]
    relations = tuple((match["relation"] or "") if match else "" for match in matches)
    bare = [index for index, relation in enumerate(relations) if not relation]
    positive = re.fullmatch(r"\d*\.?\d+", weight) and float(weight) > 0
    if not all(matches) or not positive or len(heads) != 1 or bare != heads:
        raise ValueError(
            f"rule table, line {line}: found {text.strip()!r}, expected a weight above 0, then children of which one is"
            " the head (`Child*`, or an only child) and every other one has a relation (`Child/relation`)"
        )
    return _Alternative(float(weight), tuple(match["symbol"] for match in matches if match), heads[0], relations)


def _match(
    arguments: Sequence[str], values: Sequence[str], features: Mapping[str, Mapping[str, float]]
) -> dict[str, str] | None:
    """Return the values of the variables for which the left-hand side of a line is the category, or None."""
    binding: dict[str, str] = {}
    if len(arguments) != len(values):
        return None
    for argument, value in zip(arguments, values, strict=True):
        if argument in features:
            if value not in features[argument] or binding.setdefault(argument, value) != value:
                return None
        elif argument != value:
            return None
    return binding


def _instances(
    alternative: _Alternative, binding: Mapping[str, str], features: Mapping[str, Mapping[str, float]]
) -> Iterator[tuple[float, tuple[str, ...]]]:
    """Yield weight and children of an alternative for each assignment of the variables that are only on the right."""
    parts = [(symbol, *_split_symbol(symbol)) for symbol in alternative.symbols]
    free = [*dict.fromkeys(a for _, _, arguments in parts for a in arguments if a in features and a not in binding)]
    for values in itertools.product(*(features[variable] for variable in free)):
        full = {**binding, **dict(zip(free, values, strict=True))}
        weight = alternative.weight
        for variable, value in zip(free, values, strict=True):
            weight *= features[variable][value] / sum(features[variable].values())
        yield (
            weight,
            tuple(
                f"{name}[{','.join(full.get(a, a) for a in arguments)}]" if arguments else symbol
                for symbol, name, arguments in parts
            ),
        )
