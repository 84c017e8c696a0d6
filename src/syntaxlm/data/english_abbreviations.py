"""English abbreviations that end in a full stop. They are listed in small letters and without the full stop.

Abbreviations that are also ordinary words are left out (sat, sun, mass, in) or count only before a number (no, art).
"""

_TITLES = """
mr mrs ms messrs mme mlle dr drs prof rev revd hon sr sra st sts ste mt ft capt cpt col comdr cmdr cpl gen gov lieut lt
maj pvt rep sen sgt adm pres supt insp atty amb
"""
_BEFORE_NUMBERS = """
jan feb mar apr jun jul aug sep sept oct nov dec no nos vol vols p pp fig figs ch chap sec sect art eq eqs ver v para
op b c ca d m div
"""
_OTHERS = """
etc esp viz cf approx al ed eds ibid i.e e.g a.k.a a.m p.m a.d b.c b.a m.a m.d ph.d u.s u.k u.n u.s.a d.c p.s vs
inc ltd corp co cos bros assn assoc dept dist div univ inst intl natl mfg jr esq ave blvd rd hwy pkwy bldg apt ext pop
tel est min max avg misc orig incl excl jan feb apr aug sept oct nov dec mon tue tues thu thur thurs fri ariz calif colo
conn fla ga ind kan ky md mich minn mont nev okla ont penn tenn tex va vt wis wyo
"""

TITLES = frozenset(_TITLES.split())
"""Titles before names. They do not end a sentence if a word follows."""

BEFORE_NUMBERS = frozenset(_BEFORE_NUMBERS.split())
"""Abbreviations before numbers. They do not end a sentence if a number follows."""

ALL = TITLES | frozenset(_OTHERS.split())
"""Abbreviations whose full stop may be within a sentence before any word."""
