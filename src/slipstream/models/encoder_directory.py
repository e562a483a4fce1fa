"""What an encoder directory holds: where its graph and tokenizer are, and how they want to be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from slipstream.errors import ConfigError
from slipstream.models.base import TextKind
from slipstream.models.directory_files import GRAPHS, first_file, longest_input, read_json

Pooling: TypeAlias = Literal["mean", "cls"]

_QUERY_GRAPH = "query_model.xml"


class EncoderCard(BaseModel):
    """How to use an encoder: the content of `encoder.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    dimensions: int = Field(gt=0)
    max_tokens: int = Field(gt=2)
    """Longest input, specials and prefix included."""
    pooling: Pooling = "mean"
    query_prefix: str = ""
    passage_prefix: str = ""

    def prefix(self, kind: TextKind) -> str:
        return self.query_prefix if kind == "query" else self.passage_prefix


class EncoderDirectory:
    """A BERT-family encoder as ONNX or OpenVINO IR, with `tokenizer.json`.

    A `query_model.xml`, when there is one, is the same model made quicker for one short text.
    The card is `encoder.json`, or is put together from the files that sentence-transformers writes
    (`config.json`, `tokenizer_config.json`, `sentence_bert_config.json`, `1_Pooling/config.json`,
    `config_sentence_transformers.json`).
    Raises ConfigError naming what is missing or not supported.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise ConfigError(f"The encoder directory {path} does not exist.")
        self.path = path
        self.graph = first_file(path, GRAPHS, "encoder")
        faster = path / _QUERY_GRAPH
        self.query_graph = faster if faster.is_file() else self.graph
        self.tokenizer = first_file(path, ("tokenizer.json",), "encoder")
        self.card = self._card()

    def _card(self) -> EncoderCard:
        stated = self._json("encoder.json") or self._derived()
        try:
            return EncoderCard.model_validate(stated)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise ConfigError(f"{self.path / 'encoder.json'} is missing or not valid: {wrong}.") from None

    def _derived(self) -> dict[str, Any]:
        config = self._json("config.json")
        prompts = self._json("config_sentence_transformers.json").get("prompts") or {}
        derived = {
            "name": self.path.name,
            "dimensions": config.get("hidden_size"),
            "max_tokens": longest_input(self.path),
            "pooling": self._pooling(),
            "query_prefix": prompts.get("query", ""),
            "passage_prefix": prompts.get("passage", prompts.get("document", "")),
        }
        return {key: value for key, value in derived.items() if value is not None}

    def _pooling(self) -> Pooling:
        modes = [
            mode for mode, on in self._json("1_Pooling/config.json").items() if on is True and "pooling_mode" in mode
        ]
        if modes == ["pooling_mode_cls_token"]:
            return "cls"
        if modes in ([], ["pooling_mode_mean_tokens"]):
            return "mean"
        raise ConfigError(f"The encoder {self.path} pools by {', '.join(modes)}; only mean and cls are supported.")

    def _json(self, name: str) -> dict[str, Any]:
        return read_json(self.path / name)
