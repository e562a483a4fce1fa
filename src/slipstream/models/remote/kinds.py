"""The one table of how families of OpenAI-compatible servers differ from each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from slipstream.settings import EngineKind

SchemaForm: TypeAlias = Literal["json_schema", "json_value", "json_with_schema", "none"]
"""How `response_format` holds a schema: OpenAI's; `{"type": "json", "value": …}`; `{"type": "json", "schema": …}`."""


@dataclass(frozen=True, slots=True)
class Tokenize:
    """Where and how a server counts tokens; `text` and `messages` name the fields that hold what is counted."""

    text_path: str
    text: str
    messages_path: str = ""
    messages: str = ""
    """Empty when the server counts bare text only."""
    named: bool = True
    """The request names the model."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One family of servers. Paths are from the server's root, without `/v1`."""

    name: EngineKind
    owners: tuple[str, ...] = ()
    """What its list of models says in `owned_by`."""
    health: str = "/health"
    """Answers 2xx when requests may come; nothing is computed for it."""
    max_tokens: str = "max_tokens"
    schema: SchemaForm = "json_schema"
    max_stops: int = 16
    seed: bool = True
    salt: str = ""
    """The field that keeps prefix caches of different values apart."""
    affinity: str = ""
    """The field by which a service in front of many machines keeps equal prefixes together."""
    deadline: bool = False
    """Takes `slipstream.deadline_ms`."""
    tokenize: Tokenize | None = None
    warms: bool = True
    """Prompts may be sent ahead to fill its prefix cache; where tokens are paid for, they are not."""


KINDS: Mapping[EngineKind, Kind] = {
    kind.name: kind
    for kind in (
        # cached tokens only with --enable-prompt-tokens-details
        Kind(
            "vllm",
            owners=("vllm",),
            salt="cache_salt",
            tokenize=Tokenize("/tokenize", "prompt", "/tokenize", "messages"),
        ),
        # cached tokens only with --enable-cache-report
        Kind("sglang", owners=("sglang",), salt="cache_salt", tokenize=Tokenize("/tokenize", "prompt")),
        # refuses top_p of 1 (never sent) and a fifth stop string; reports no cached tokens
        Kind(
            "tgi",
            schema="json_value",
            max_stops=4,
            tokenize=Tokenize("/tokenize", "inputs", "/chat_tokenize", "messages", named=False),
        ),
        # refuses unknown fields
        Kind("trtllm", owners=("tensorrt_llm",), schema="json_with_schema"),
        # 503 from /health while the model loads; cached tokens always, also as timings.cache_n
        Kind("llama", owners=("llamacpp",), tokenize=Tokenize("/tokenize", "content", named=False)),
        # newer models refuse max_tokens; a fifth stop string is refused
        Kind(
            "openai",
            owners=("openai", "system", "openai-internal"),
            health="/v1/models",
            max_tokens="max_completion_tokens",
            max_stops=4,
            affinity="prompt_cache_key",
            warms=False,
        ),
        Kind("slipstream", owners=("slipstream",), health="/readyz", max_stops=4, deadline=True, warms=False),
        Kind("other", health="/v1/models", max_stops=4, seed=False, warms=False),
    )
}

CACHED_TOKENS: tuple[tuple[str, ...], ...] = (
    ("usage", "prompt_tokens_details", "cached_tokens"),
    ("usage", "cached_tokens"),
    ("usage", "prompt_cache_hit_tokens"),
    ("usage", "cache_read_input_tokens"),
    ("timings", "cache_n"),
)
"""Where the last chunk tells prompt tokens out of the prefix cache; the first that is there counts."""

FINISH_REASONS: Mapping[str, Literal["stop", "length", "tool_calls", "content_filter"]] = {
    "stop": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}
"""A reason that is not here is taken for "length": nobody knows that the answer is whole."""

FAILURE_REASONS = frozenset({"abort", "error", "insufficient_system_resource"})
"""Finish reasons that mean the server gave up."""


def kind_of(owner: str) -> Kind | None:
    """The family that signs its list of models with this name."""
    return next((kind for kind in KINDS.values() if owner in kind.owners), None)
