"""Whether an English question can be understood without its history."""

from __future__ import annotations

import re

from slipstream.answer.dependence import STANDS_ALONE, Dependence

MARKER_EN = re.compile(
    r"^(?:(?:ok(?:ay)?|well|yes|no|thanks|great|and|but|so|or|then|also|plus|instead|now)\b[, ]*)*"
    r"(?:(?:what|how) about\b|what if (?:it'?s|i use)\b|same (?:question )?(?:for|with)\b"
    r"|(?:and|but|or|then|also)\b)?[, ]*",
    re.IGNORECASE,
)
_STRONG_MARKER_EN = re.compile(
    r"^(?:(?:ok(?:ay)?|well|yes|no|thanks|great|so|but|then|or|now)[, ]+)*"
    r"(?:and|(?:what|how) about|what if it'?s|same (?:question )?(?:for|with))\b",
    re.IGNORECASE,
)
_EXPLETIVE_EN = re.compile(
    r"\b(?:is|was|would|will) it (?:\w+ )?(?:possible|safe|okay|ok|allowed|legal|necessary|true|better|worth|required"
    r"|recommended|advisable|normal|mandatory|best|easier)\b"
    r"|\b(?:does|do|did|will|would|can|could|should) it (?:take|cost|make sense|matter|require)"
    r"(?= .*\b(?:to|if|that|for)\b)"
    r"|\bwhat time is it\b|\bit (?:is|'s|was) (?:\w+ )?(?:to|that)\b|\bis there\b|\bare there\b"
    r"|\bthere (?:is|are|was|were)\b"
    r"|\bthis (?:year|month|week|quarter|morning|time|semester|season)\b|\bthose who\b|\bthese days\b|\bone of\b"
    r"|\bits?elf\b",
    re.IGNORECASE,
)
_PERSON_EN = re.compile(r"\b(?:he|she|him|her|his|hers)\b", re.IGNORECASE)
_PRONOUN_EN = re.compile(
    r"\b(?:it|its|they|them|their|theirs)\b"
    r"|\b(?:this|these|those)\b"
    r"|\bthat(?=[\s?.!]*$)|\b(?:about|for|of|with|after|before|like|than|by|from|to|in|on|is|was|does|did|do|can|will"
    r"|would|could|has|should) that\b(?! the\b| an?\b)|^that(?:'s| is| was| one)\b|\bthat one\b"
    r"|\b(?:from|over|up|down|in|out)? ?there(?=[\s?.!]*$)",
    re.IGNORECASE,
)
ORDINAL_EN = re.compile(
    r"\b(?:the )?(?:first|second|third|fourth|fifth|last|other|next|previous|latter|former|remaining|cheaper|newer"
    r"|older|bigger|smaller|better) (?:one|ones|option|two)\b"
    r"|\bthe (?:first|second|third|fourth|fifth|last|other|others|latter|former|rest)(?=[\s?.!]*$)"
    r"|\bthe (?:latter|former|others|rest)\b|\b(?:another|which|either|neither) ones?\b"
    r"|\bboth(?: of them)?(?=[\s?.!]*$)|\bthe same\b",
    re.IGNORECASE,
)
_REQUEST_EN = re.compile(
    r"^(?:why|how|when|where|who|really|how so|how come|why not|go on|continue|more|any others?|anything else|what else"
    r"|who else|where else|(?:can you |could you |please )*(?:elaborate|explain(?: more)?|tell me more"
    r"|give (?:me )?(?:an|another) example|go deeper)"
    r"|(?:more|further) (?:details?|examples?)(?: please)?|for example)[\s?.!]*$",
    re.IGNORECASE,
)
_TAIL_EN = re.compile(r"\b(?:as well|too|instead|else|then)\s*[?.!]*$", re.IGNORECASE)
_BOUNDARY_EN = re.compile(r"\b(?:and|if|when|after|before|once|while|because|but|or)\b|[,;:.?]", re.IGNORECASE)
_NAME_EN = re.compile(r"(?<!^)(?<![.?!] )\b[A-Z][\w-]*|\b\w*\d\w*|\b[a-z]+[A-Z_]\w*")
_WORD_EN = re.compile(r"[A-Za-z0-9][\w'’.+#/-]*")
_SMALL_WORDS_EN = (
    "a about an and any are as at be been but by can come could did do does else for from get give had "
    "has have he her him his how i if in instead into is it its just long many may me more most much "
    "must my need no not now of on one or our out please she should so some such tell than that the "
    "their them then there these they this those to too under up us use using was we well were what when "
    "where which who whom whose why will with would you your same mean means happen happens work works "
    "say says show explain describe cost costs take takes make makes"
)
_SMALL_EN = frozenset(_SMALL_WORDS_EN.split())
_CLAUSE_EN = re.compile(
    r"(?:what|which|who|whom|whose|where|when|why|how|is|are|was|were|does|do|did|can|could|should|will|would|has|have)\b",
    re.IGNORECASE,
)
_SHORT_WORDS_EN = 3
_OWN_CONTENT_EN = 3
"""Words of its own, beyond those any question has, with which a question after "and" changes the subject."""


def content_words(text: str) -> list[str]:
    words = (word.rstrip(".'’/-") for word in _WORD_EN.findall(text))
    return [word for word in words if word.lower() not in _SMALL_EN]


def english(text: str) -> Dependence:
    if _REQUEST_EN.match(text):
        return Dependence("request")
    bare = _EXPLETIVE_EN.sub(" ", text)
    if (found := _PERSON_EN.search(bare)) and not _named_before_en(bare, found.start()):
        return Dependence("person")
    if ORDINAL_EN.search(bare):
        return Dependence("ordinal")
    if (found := _PRONOUN_EN.search(bare)) and not _named_before_en(bare, found.start()):
        return Dependence("pronoun")
    own = content_words(text)
    if _STRONG_MARKER_EN.match(text) and (len(own) < _OWN_CONTENT_EN or not _CLAUSE_EN.match(MARKER_EN.sub("", text))):
        return Dependence("ellipsis")
    if _TAIL_EN.search(text) and len(own) < _OWN_CONTENT_EN:
        return Dependence("ellipsis")
    if len(text.split()) <= _SHORT_WORDS_EN:
        return Dependence("short", certain=False)
    if len(own) <= 2 and re.search(r"\bthe\b", text, re.IGNORECASE) and not _new_subject_en(text):
        return Dependence("bridging", certain=False)
    return STANDS_ALONE


def _named_before_en(text: str, at: int) -> bool:
    """Whether an earlier clause of the question itself names what the pronoun stands for."""
    before = text[:at]
    clauses = _BOUNDARY_EN.split(MARKER_EN.sub("", before, count=1))
    return len(clauses) > 1 and any(len(content_words(clause)) >= 2 for clause in clauses[:-1])


def _new_subject_en(text: str) -> bool:
    return bool(_NAME_EN.search(text) or re.search(r"\b(?:my|our|your|an?)\b", text, re.IGNORECASE))
