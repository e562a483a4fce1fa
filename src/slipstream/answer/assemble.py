"""Passages → Prompt within a token budget: stable parts first, passages as data, the question last."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from slipstream.answer import prompts
from slipstream.call import Call
from slipstream.errors import InvalidRequest
from slipstream.models.base import LanguageModel
from slipstream.runtime.workers import Worker
from slipstream.settings import AnswerSettings, Reads
from slipstream.text.plain import plain
from slipstream.types import Evidence, Language, Message, Passages, Prompt, Question, Route, ScoredSpan, Tier, Turn

_DELIMITER = re.compile(r"[<＜](?=\s*[/／]?\s*passage)|[<＜](?=[|｜])", re.IGNORECASE)
"""What could pass for our delimiter or a chat template's control token, in any width or case."""
_KEPT_TURNS = 4
_INNER_MARKS = str.maketrans("“”", "‘’")

_TEMPLATE_TOKENS = 256
"""More than any chat template adds around our messages."""
_INLINE_CHARACTERS = 1_000
"""Below this (about 0.3 ms of tokenising) handing the work to a thread costs more than doing it."""


class Assembler:
    """Renders prompts; a passage renders byte-identically wherever it appears with the same number."""

    def __init__(self, models: Mapping[Tier, LanguageModel], settings: AnswerSettings, worker: Worker) -> None:
        self._models = models
        self._settings = settings
        self._worker = worker

    async def check(self, question: Question, passages: Passages, route: Route) -> None:
        """Raises InvalidRequest when the question alone exceeds the model's context: before anything is shown.

        No token is shorter than a byte, so most questions need not be tokenised to know that they fit.
        """
        model = self._models.get(route.tier)
        if model is None:
            return
        reads, _ = self._reads(route.tier)
        messages = _LAYOUTS[reads].messages(question, (), (), passages.query.language)
        room = model.context_tokens - route.sampling.max_tokens
        said_bytes = sum(len(message.text.encode()) for message in messages)
        if said_bytes + _TEMPLATE_TOKENS < room:
            return
        inline = said_bytes <= _INLINE_CHARACTERS
        bare = model.count_tokens(messages) if inline else await self._worker.run(model.count_tokens, messages)
        if bare >= room:
            raise InvalidRequest(
                f"The question takes {bare} tokens and the answer up to {route.sampling.max_tokens}, but the model "
                f"reads {model.context_tokens} in all. Shorten the question or lower max_tokens.",
                code="context_length_exceeded",
                param="messages",
            )

    async def __call__(self, question: Question, passages: Passages, route: Route, call: Call) -> Prompt:
        """For a question that `check` has let through."""
        model = self._models.get(route.tier)
        if model is None:
            return _quoted(passages)
        with call.stage("assemble") as span:
            if _characters(question, passages) <= _INLINE_CHARACTERS:
                prompt = self._fit(question, passages, model, route, call)
            else:
                prompt = await self._worker.run(self._fit, question, passages, model, route, call)
            span.detail["tokens"] = prompt.tokens
            span.detail["passages"] = len(prompt.evidence)
            return prompt

    def _fit(self, question: Question, passages: Passages, model: LanguageModel, route: Route, call: Call) -> Prompt:
        """As much evidence as the budget takes, best first; when none fits, it is quoted and no model asked."""
        reads, sentences = self._reads(route.tier)
        layout = _LAYOUTS[reads]
        language = passages.query.language
        room = model.context_tokens - route.sampling.max_tokens
        history = question.history[-_KEPT_TURNS:]
        bare = model.count_tokens(layout.messages(question, (), history, language))
        if bare >= room:
            history = ()
            call.degrade("history")
            bare = model.count_tokens(layout.messages(question, (), history, language))
        pieces = layout.pieces(passages, sentences)
        kept = _within(min(self._settings.context_tokens, room - bare), pieces, model)
        if not kept:
            call.degrade("model")
            return _quoted(passages)
        rendered = layout.messages(question, [piece.text for piece in kept], history, language)
        shown = frozenset(piece.number for piece in kept)
        return Prompt(rendered, passages.items, shown, model.count_tokens(rendered), language)

    def _reads(self, tier: Tier) -> tuple[Reads, int]:
        settings = self._settings
        if tier == "small":
            return settings.small_reads, settings.small_sentences
        return settings.large_reads, settings.large_sentences


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rendered evidence, and the number of its passage."""

    number: int
    text: str


def _quoted(passages: Passages) -> Prompt:
    """What the extractive tier reads."""
    return Prompt((), passages.items, frozenset({1}) if passages.items else frozenset(), 0, passages.query.language)


def _within(budget: int, pieces: Sequence[_Piece], model: LanguageModel) -> list[_Piece]:
    """The longest run of pieces from the first that the budget takes."""
    kept = []
    for piece in pieces:
        budget -= model.count_text_tokens(piece.text) + 1
        if budget < 0:
            break
        kept.append(piece)
    return kept


@dataclass(frozen=True, slots=True)
class _Layout:
    """How evidence is cut into pieces, and how pieces become messages."""

    pieces: Callable[[Passages, int], list[_Piece]]
    messages: Callable[[Question, Sequence[str], Sequence[Turn], Language], tuple[Message, ...]]


def _passage_pieces(passages: Passages, _: int) -> list[_Piece]:
    return [_Piece(number, render_passage(number, item)) for number, item in enumerate(passages.items, 1)]


def _passage_messages(
    question: Question, pieces: Sequence[str], history: Sequence[Turn], language: Language
) -> tuple[Message, ...]:
    """System message, then one user message: passages, conversation, question."""
    spoken = prompts.spoken(language)
    parts = [*pieces, *_conversation(history, language), f"{prompts.QUESTION[spoken]}: {neutralise(question.text)}"]
    system = "\n\n".join(filter(None, (prompts.SYSTEM[spoken], neutralise(question.instructions))))
    return Message("system", system), Message("user", "\n\n".join(parts))


@dataclass(frozen=True, slots=True)
class _Sentence:
    number: int
    """Of its passage."""
    span: ScoredSpan
    text: str


def _best_sentences(passages: Passages, count: int) -> list[_Sentence]:
    """The best sentences of all the evidence, best first; ties go to the better passage."""
    spans = [
        (number, span)
        for number, item in enumerate(passages.items, 1)
        for span in (ScoredSpan(*item.sentence, item.sentence_score), *item.others)
    ]
    best = sorted(spans, key=lambda numbered: (-numbered[1].score, numbered[0]))[:count]
    return [
        _Sentence(number, span, plain(passages.items[number - 1].passage.text[span.start : span.end]))
        for number, span in best
    ]


def _excerpt_pieces(passages: Passages, count: int) -> list[_Piece]:
    """Passages cut down to their best sentences, in the order of the text."""
    best = _best_sentences(passages, count)
    pieces = []
    for number in dict.fromkeys(sentence.number for sentence in best):
        within = sorted((s for s in best if s.number == number), key=lambda s: s.span.start)
        pieces.append(_Piece(number, _delimited(number, " … ".join(neutralise(s.text) for s in within))))
    return pieces


def _quote_pieces(passages: Passages, count: int) -> list[_Piece]:
    """Each sentence on one quoted line."""
    return [_Piece(sentence.number, quote(sentence.text)) for sentence in _best_sentences(passages, count)]


def _quote_messages(
    question: Question, pieces: Sequence[str], history: Sequence[Turn], language: Language
) -> tuple[Message, ...]:
    """One user message, quoted lines between; a very small model is thrown off by anything more."""
    parts = ["\n".join(pieces), *_conversation(history, language), neutralise(question.text)]
    user = Message("user", "\n\n".join(filter(None, parts)))
    return (Message("system", neutralise(question.instructions)), user) if question.instructions else (user,)


_LAYOUTS: Mapping[Reads, _Layout] = {
    "passages": _Layout(_passage_pieces, _passage_messages),
    "excerpts": _Layout(_excerpt_pieces, _passage_messages),
    "quotes": _Layout(_quote_pieces, _quote_messages),
}


def _conversation(history: Sequence[Turn], language: Language) -> list[str]:
    if not history:
        return []
    turns = "\n".join(f"{turn.role}: {neutralise(turn.text)}" for turn in history)
    return [f"{prompts.CONVERSATION[prompts.spoken(language)]}:\n{turns}"]


def _characters(question: Question, passages: Passages) -> int:
    said = len(question.text) + len(question.instructions) + sum(len(turn.text) for turn in question.history)
    return said + sum(len(item.passage.text) for item in passages.items)


def system_prefix(language: Language) -> tuple[Message, ...]:
    """The stable start of every prompt in a language: what warm-up prefills."""
    return (Message("system", prompts.SYSTEM[prompts.spoken(language)]),)


def render_passage(number: int, evidence: Evidence) -> str:
    """One passage between delimiters that its own text cannot forge."""
    passage = evidence.passage
    heading = " › ".join(part for part in (passage.title, *passage.headings) if part)
    label = f"{neutralise(heading)}\n" if heading else ""
    return _delimited(number, f"{label}{neutralise(plain(passage.text))}")


def _delimited(number: int, text: str) -> str:
    return f'<passage id="{number}">\n{text}\n</passage>'


def quote(text: str) -> str:
    """One line between quotation marks that the text cannot close: it holds neither that mark nor a line break."""
    return f"“{neutralise(' '.join(text.split())).translate(_INNER_MARKS)}”"


def neutralise(text: str) -> str:
    """Replaces the bracket of anything that reads like a delimiter or control token by ‹."""
    return _DELIMITER.sub("‹", text)
