"""Messages → token ids through the model's own chat template, with control tokens in the text defused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import openvino_genai
from numpy.typing import NDArray

from slipstream.errors import DataError, InvalidRequest
from slipstream.models.vocabulary import control_tokens, last_line, stop_ids, vocabulary
from slipstream.types import Message

TokenIds: TypeAlias = NDArray[np.int64]

_KEPT_PROMPTS = 128
_KEPT_COUNTS = 4_096


class ChatTokenizer:
    """The tokenizer of one model directory. Thread-safe; half a millisecond a call and 0.1 ms a kilobyte."""

    def __init__(self, directory: Path) -> None:
        """Raises DataError when the directory holds no tokenizer, or one without a chat template."""
        try:
            self._tokenizer = openvino_genai.Tokenizer(directory)
        except RuntimeError as error:
            raise DataError(
                f"{directory} has no usable tokenizer: {last_line(error)}. Pull the model again."
            ) from error
        if not self._tokenizer.chat_template:
            raise DataError(f"The model in {directory} has no chat template; choose an instruction-tuned model.")
        controls = control_tokens(self._tokenizer)
        self.stop_ids = stop_ids(self._tokenizer)
        self.longest_token_bytes = vocabulary(self._tokenizer).longest_piece_bytes
        self._control = re.compile("|".join(map(re.escape, sorted(controls, key=len, reverse=True))))
        self._breaker, self._breaker_id = self._spare(controls, directory)
        self.encode = lru_cache(_KEPT_PROMPTS)(self._encode)
        self.count_text = lru_cache(_KEPT_COUNTS)(self._count_text)

    def _encode(self, messages: tuple[Message, ...], generation_prompt: bool = True) -> TokenIds:
        """(n,) int64, template included; read-only, since it is shared.

        Raises InvalidRequest when the model's template refuses the order or roles of the messages.
        """
        history = [{"role": message.role, "content": self._defuse(message.text)} for message in messages]
        try:
            prompt = self._tokenizer.apply_chat_template(history, generation_prompt)
        except RuntimeError as error:
            raise InvalidRequest(
                f"The model's chat template refuses these messages: {last_line(error)}", param="messages"
            ) from error
        ids = self._ids(prompt)
        kept: TokenIds = ids[ids != self._breaker_id]
        kept.flags.writeable = False
        return kept

    def _count_text(self, text: str) -> int:
        ids = self._ids(self._defuse(text))
        return int(np.count_nonzero(ids != self._breaker_id))

    def _ids(self, text: str) -> TokenIds:
        tokens = self._tokenizer.encode([text], add_special_tokens=False)  # given a list, it lets other threads run
        return np.array(tokens.input_ids.data, dtype=np.int64).reshape(-1)

    def _defuse(self, text: str) -> str:
        """Puts a control token that is later removed into every control token spelt in `text`.

        The tokenizer knows control tokens by their spelling only. Broken in two, the text keeps every
        character and is tokenised as the ordinary characters it consists of.
        """
        return self._control.sub(lambda match: f"{match[0][0]}{self._breaker}{match[0][1:]}", text)

    def _spare(self, controls: Mapping[str, int], directory: Path) -> tuple[str, int]:
        """A control token that the template never writes."""
        template, first = self._tokenizer.chat_template, self._tokenizer.get_bos_token_id()
        for spelling, i in sorted(controls.items(), key=lambda item: item[1]):
            if spelling not in template and i != first and self._ids(spelling).tolist() == [i]:
                return spelling, i
        raise DataError(f"The tokenizer in {directory} has no spare control token; choose another model.")
