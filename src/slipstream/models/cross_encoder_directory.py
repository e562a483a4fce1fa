"""What a cross-encoder's directory holds: where its graph and tokenizer are, and how long a pair may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from slipstream.errors import ConfigError
from slipstream.models.directory_files import GRAPHS, first_file, longest_input, read_json

CARD = "cross_encoder.json"
_WHAT = "cross-encoder"


class CrossEncoderCard(BaseModel):
    """How to use a cross-encoder: the content of `cross_encoder.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    max_tokens: int = Field(gt=8)
    """Longest pair, specials included."""


class CrossEncoderDirectory:
    """A BERT-family or XLM-RoBERTa sequence classifier with one output, as ONNX or OpenVINO IR, with `tokenizer.json`.

    The card is `cross_encoder.json`, or is put together from `config.json` and `tokenizer_config.json`.
    Raises ConfigError naming what is missing or not supported.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise ConfigError(f"The cross-encoder directory {path} does not exist.")
        self.path = path
        self.graph = first_file(path, GRAPHS, _WHAT)
        self.tokenizer = first_file(path, ("tokenizer.json",), _WHAT)
        self.card = self._card()

    def _card(self) -> CrossEncoderCard:
        stated = read_json(self.path / CARD) or self._derived()
        try:
            return CrossEncoderCard.model_validate(stated)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise ConfigError(f"{self.path / CARD} is missing or not valid: {wrong}.") from None

    def _derived(self) -> dict[str, Any]:
        labels = read_json(self.path / "config.json").get("id2label")
        if labels is not None and len(labels) != 1:
            raise ConfigError(
                f"The model in {self.path} tells {len(labels)} classes apart; a cross-encoder gives one relevance. "
                "Name a reranker that was trained with a single label."
            )
        derived = {"name": self.path.name, "max_tokens": longest_input(self.path)}
        return {key: value for key, value in derived.items() if value is not None}
