"""Sampling in OpenAI's terms → the engine's GenerationConfig."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import openvino_genai

from slipstream.errors import InvalidRequest
from slipstream.models.json_schema import check_schema
from slipstream.models.vocabulary import last_line
from slipstream.types import Sampling

_GREEDY_BELOW = 1e-3


def generation_config(sampling: Sampling, stop_ids: AbstractSet[int]) -> openvino_genai.GenerationConfig:
    """Stop strings are left out: `TextStream` finds them, whatever tokens they are spread over.

    The engine has one random generator, set by each request as it starts: a seed reproduces a text
    when the request runs alone.
    Raises InvalidRequest when a value is out of range.
    """
    if not all(sampling.stop):
        raise InvalidRequest("A stop string is empty; remove it.", param="stop")
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = max(sampling.max_tokens, 0)
    config.stop_token_ids = set(stop_ids)
    config.apply_chat_template = False
    config.presence_penalty = sampling.presence_penalty
    config.frequency_penalty = sampling.frequency_penalty
    if sampling.temperature < 0 or sampling.temperature >= _GREEDY_BELOW:
        config.do_sample = True
        config.temperature = sampling.temperature
        config.top_p = sampling.top_p
        config.rng_seed = (sampling.seed or 0) % 2**63
    if sampling.json_schema is not None:
        schema = check_schema(sampling.json_schema)
        config.structured_output_config = openvino_genai.StructuredOutputConfig(json_schema=schema)
    try:
        config.validate()
    except RuntimeError as error:
        raise InvalidRequest(f"The sampling parameters cannot be used: {last_line(error)}.") from error
    return config
