"""English: a value of the follow-up takes its slot in the topic, or the topic's subject goes before it."""

from __future__ import annotations

import re

from slipstream.answer.carried import Carried
from slipstream.answer.follow_up_en import content_words
from slipstream.answer.variants import bare_subject

D = re.compile(r"[\s?？。.!！]+$")
_PREPOSITION = re.compile(r"^(on|in|for|with|under|from|at|via|using|by|without|during|to)\s+(.+)$", re.IGNORECASE)
_NOUN_PHRASE = re.compile(r"\b(?:the|an?|my|our|this)\s+[^?,.;!]*|(?<!^)\b[A-Z][^?,.;!]*")
_LAST_VERB = re.compile(
    r"[\s?.!]*(?:\b(?:cost|costs|have|has|do|does|work|works|mean|means|take|takes|need|use|happen|allow|support|open|close)"
    r"[\s?.!]*)?$"
)
_MANNERS = frozenset({"on", "with", "via", "using", "under", "by"})
_MANNER = re.compile(r"\b(?:on|with|via|using|under|by)\s+[^,?.]+", re.IGNORECASE)
_NAME = re.compile(r"(?<!^)\b[A-Z][\w-]*(?: (?:of |the )?[A-Z][\w-]*)*")
_ARTICLE = re.compile(r"^(?:the|a|an|my|our)\s+", re.IGNORECASE)


def replaced(topic: str, rest: str) -> Carried | None:
    """The topic with the follow-up's place, name or noun in it; None when it has no such slot."""
    if phrase := _PREPOSITION.match(rest):
        preposition, value = phrase[1], phrase[2]
        if len(content_words(value)) > 3:
            return None
        found = list(re.finditer(rf"\b{preposition}\s+(?!(?:i|we|you|do|does)\b)[^,?.]+", topic, re.IGNORECASE))
        if found and not _is_verb_phrase(preposition, found[-1][0]):
            last = found[-1]
            return Carried(f"{topic[: last.start()]}{rest}{topic[last.end() :]}", f"now {rest}", True)
        if preposition.lower() in _MANNERS and (found := list(_MANNER.finditer(topic))):
            last = found[-1]
            return Carried(f"{topic[: last.start()]}{rest}{topic[last.end() :]}", f"now {rest}", True)
        return Carried(f"{D.sub('', topic)} {rest}?", f"now {rest}", True)
    name = _ARTICLE.sub("", rest)
    names = list(_NAME.finditer(topic))
    if len(names) == 1 and re.fullmatch(r"[A-Z][\w-]*(?: [A-Z][\w-]*)*", name):
        text = f"{topic[: names[0].start()]}{name}{topic[names[0].end() :]}"
        return Carried(text, f"{names[0][0]} gives way to {name}", True)
    return _same_head(topic, name)


def _same_head(topic: str, name: str) -> Carried | None:
    """`part-time employees` takes the place of `employees`."""
    words = name.split()
    if not 2 <= len(words) <= 4 or len(content_words(name)) < len(words):
        return None
    found = re.search(rf"(?:\b([\w-]+) )?\b{re.escape(words[-1])}\b", topic, re.IGNORECASE)
    if found is None:
        return None
    start = found.start() if found[1] and content_words(found[1]) else found.end() - len(words[-1])
    return Carried(f"{topic[:start]}{name}{topic[found.end() :]}", f"now {name}", True)


def _is_verb_phrase(preposition: str, phrase: str) -> bool:
    """`to install the tool`: an infinitive is no place to put another value."""
    return preposition.lower() == "to" and not re.match(r"to\s+(?:the|a|an|my|our|[A-Z])", phrase)


def about(topic: str, follow_up: str) -> Carried:
    """What the topic is about, and the follow-up."""
    subject = subject_of(topic)
    return Carried(f"{subject} {follow_up}", f"it is about {subject}", False)


def subject_of(topic: str) -> str:
    """What an English question is about: from its first article or name on, without the verb that ends it."""
    bare = bare_subject(topic, "en")
    found = _NOUN_PHRASE.search(bare)
    return _LAST_VERB.sub("", found[0] if found else bare).strip() or topic
