"""How many tokens a prompt takes: by the model's tokenizer where there is one, else estimated and learnt."""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from slipstream.errors import ConfigError
from slipstream.types import Message

_WIDE = re.compile(r"[\u0e00-\u0eff\u1100-\u11ff\u2e80-\U0003ffff]")
"""Scripts of which one character is about one token or more."""
_NARROW_RATE, _WIDE_RATE = 0.34, 1.3
"""Tokens per character to begin with: above what current vocabularies take of English and of Chinese prose."""
_LOWEST_RATE, _HIGHEST_RATE = 0.12, 3.0
_TEMPLATE_TOKENS = 8.0
"""Per message and once more, to begin with."""
_LONG = 4.0
"""Times the template's share, from where on a prompt is a long one."""
_LEARNING = 0.3
_LEAST_MARGIN, _MOST_MARGIN = 0.03, 0.3
_KEPT = 512


class TokenCounter:
    """Thread-safe for reading; `learn` is called on the event loop.

    Estimates are meant to be a little too high. The server's own count of a prompt, once known, is kept.
    """

    def __init__(self, tokenizer: Path | None = None) -> None:
        """Raises ConfigError when there is no tokenizer at the path."""
        self._tokenizer = None if tokenizer is None else _load(tokenizer)
        self._narrow_rate, self._wide_rate = _NARROW_RATE, _WIDE_RATE
        self._template_tokens = _TEMPLATE_TOKENS
        self._margin = 0.1
        self._known: OrderedDict[int, int] = OrderedDict()

    @property
    def exact(self) -> bool:
        """Text is counted, not estimated."""
        return self._tokenizer is not None

    def text(self, text: str) -> int:
        """Of bare text."""
        return math.ceil(self._text(text) * (1 if self.exact else 1 + self._margin))

    def messages(self, messages: Sequence[Message]) -> int:
        """Of a prompt, its chat template included."""
        known = self._known.get(hash(tuple(messages)))
        if known is not None:
            return known
        texts = sum(self.text(message.text) for message in messages)
        return texts + math.ceil(self._template_tokens * (len(messages) + 1))

    def learn(self, messages: Sequence[Message], prompt_tokens: int) -> None:
        """The server said how many tokens a prompt took."""
        key = hash(tuple(messages))
        if prompt_tokens <= 0 or self._known.get(key) == prompt_tokens:
            return
        self._known[key] = prompt_tokens
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        if self.exact:
            template = prompt_tokens - sum(self._text(message.text) for message in messages)
            self._learn_template(template, len(messages))
        else:
            self._learn_rates("".join([message.text for message in messages]), prompt_tokens, len(messages))

    def calibrate_template(self, tokens: int, messages: int) -> None:
        """The server counted so many tokens of a prompt beyond those of its texts."""
        self._template_tokens = max(0.0, tokens / (messages + 1))

    def calibrate(self, text: str, tokens: int) -> None:
        """The server counted bare text of one script."""
        wide = len(_WIDE.findall(text))
        if wide * 2 > len(text):
            self._wide_rate = _bounded(tokens / len(text))
        elif not wide:
            self._narrow_rate = _bounded(tokens / len(text))

    def _text(self, text: str) -> float:
        if self._tokenizer is not None:
            return len(self._tokenizer.encode(text, add_special_tokens=False))
        wide = 0 if text.isascii() else len(_WIDE.findall(text))
        return (len(text) - wide) * self._narrow_rate + wide * self._wide_rate

    def _learn_template(self, tokens: float, messages: int) -> None:
        """Up at once, down slowly."""
        seen = max(0.0, tokens / (messages + 1))
        share = 1.0 if seen > self._template_tokens else _LEARNING
        self._template_tokens += share * (seen - self._template_tokens)

    def _learn_rates(self, text: str, tokens: int, messages: int) -> None:
        """Short prompts tell of the template, long ones of the kinds of character (normalised least mean squares)."""
        wide = len(_WIDE.findall(text))
        narrow = len(text) - wide
        template = self._template_tokens * (messages + 1)
        error = tokens - self._text(text) - template
        if tokens < _LONG * template:
            self._template_tokens = max(0.0, self._template_tokens + _LEARNING * error / (messages + 1))
            return
        step = _LEARNING * error / (narrow * narrow + wide * wide)
        self._narrow_rate = _bounded(self._narrow_rate + step * narrow)
        self._wide_rate = _bounded(self._wide_rate + step * wide)
        margin = 2 * abs(error) / tokens
        self._margin += _LEARNING * (min(max(margin, _LEAST_MARGIN), _MOST_MARGIN) - self._margin)


def _bounded(rate: float) -> float:
    return min(max(rate, _LOWEST_RATE), _HIGHEST_RATE)


def _load(path: Path) -> Tokenizer:
    file = path.expanduser() / "tokenizer.json" if path.expanduser().is_dir() else path.expanduser()
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises bare Exception
        raise ConfigError(
            f"There is no tokenizer at {file}: {error}. Name the model's tokenizer.json, or leave `tokenizer` unset."
        ) from None
