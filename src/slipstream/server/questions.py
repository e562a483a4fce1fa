"""A chat request → the Question it asks: the last user message, with the others as history and instructions."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_core import to_json

from slipstream.errors import InvalidRequest, NotFound
from slipstream.server.auth import resolve_tenant
from slipstream.server.base import ModelCard
from slipstream.server.filters import parse_filter
from slipstream.server.openai_types import ChatMessage, ChatRequest, ResponseFormat, SlipstreamFields
from slipstream.server.search_fields import search_options
from slipstream.settings import AnswerSettings
from slipstream.types import CacheUse, Question, Role, Sampling, Scope, Tier, Turn

AUTO_MODEL = "slipstream"
"""The model name that leaves the choice of a tier to the router."""
MAX_QUESTION_CHARACTERS = 32_768
MAX_CONVERSATION_CHARACTERS = 1 << 20

_CACHE_USE: dict[str | None, CacheUse] = {
    None: "auto",
    "auto": "auto",
    "use": "auto",
    "refresh": "refresh",
    "off": "off",
    "bypass": "off",
}
_HISTORY_ROLE: dict[str, Role] = {"user": "user", "assistant": "assistant", "tool": "tool", "function": "tool"}
_ANY_OBJECT = '{"type":"object"}'


def question_of(
    request: ChatRequest, bound_tenant: str | None, models: Sequence[ModelCard], defaults: AnswerSettings
) -> Question:
    """Raises InvalidRequest naming the field, NotFound for an unknown model, Forbidden for another's tenant."""
    _refuse_unsupported(request)
    own = request.slipstream or SlipstreamFields()
    texts = [text_of(message, index) for index, message in enumerate(request.messages)]
    if sum(map(len, texts)) > MAX_CONVERSATION_CHARACTERS:
        raise InvalidRequest(
            f"The conversation is longer than {MAX_CONVERSATION_CHARACTERS} characters. Leave out older messages.",
            param="messages",
            code="context_length_exceeded",
        )
    return Question(
        text=_asked(request.messages, texts),
        scope=Scope(
            tenant=resolve_tenant(bound_tenant, own.tenant),
            collections=own.collections,
            filter=parse_filter(own.filters, "slipstream.filters"),
        ),
        history=_history(request.messages, texts),
        instructions="\n\n".join(
            text for m, text in zip(request.messages, texts, strict=True) if m.role in {"system", "developer"} and text
        ),
        sampling=_sampling(request, defaults),
        route=own.route or tier_of(request.model, models),
        passages=own.passages,
        cache=_CACHE_USE[own.cache],
        cache_max_age_s=own.cache_max_age_s,
        cache_tag=own.cache_tag,
        candidates=own.candidates,
        search=search_options(own, "slipstream"),
    )


def text_of(message: ChatMessage, index: int) -> str:
    """The text of a message: its string, or its text parts joined."""
    content, at = message.content, f"messages[{index}].content"
    if content is None:
        if message.role == "assistant":
            return ""
        raise InvalidRequest(f"{at} is missing.", param=at, code="missing_required_parameter")
    text = content if isinstance(content, str) else _joined(content, at)
    if "\0" in text:
        raise InvalidRequest(f"{at} contains a NUL character. Remove it.", param=at, code="invalid_value")
    return text


def tier_of(model: str, models: Sequence[ModelCard]) -> Tier | None:
    """The tier a model name stands for; None leaves it to the router. Raises NotFound."""
    if model == AUTO_MODEL:
        return None
    for card in models:
        if card.tier is not None and model in {card.id, card.tier}:
            return card.tier
    names = ", ".join([AUTO_MODEL, *(card.id for card in models if card.tier is not None)])
    raise NotFound(f'There is no model "{model}" here; there is {names}.', code="model_not_found", param="model")


def _joined(content: object, at: str) -> str:
    if not isinstance(content, list):
        raise InvalidRequest(f"{at} must be a string or an array of text parts.", param=at, code="invalid_type")
    texts: list[str] = []
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in {"text", "refusal"}:
            raise InvalidRequest(
                f'{at}[{index}]: only parts of type "text" are supported.', param=at, code="unsupported_content"
            )
        text = part.get(kind)
        if not isinstance(text, str):
            raise InvalidRequest(
                f"{at}[{index}].{kind} must be a string.", param=f"{at}[{index}].{kind}", code="invalid_type"
            )
        texts.append(text)
    return "\n".join(texts)


def _asked(messages: Sequence[ChatMessage], texts: Sequence[str]) -> str:
    at = f"messages[{len(messages) - 1}]"
    if messages[-1].role != "user":
        raise InvalidRequest(
            f"The last message must be the user's question, not one of the {messages[-1].role}.", param=f"{at}.role"
        )
    text = texts[-1]
    if not text.strip():
        raise InvalidRequest("The question is empty. Ask something.", param=f"{at}.content", code="empty_question")
    if len(text) > MAX_QUESTION_CHARACTERS:
        raise InvalidRequest(
            f"The question has {len(text)} characters; {MAX_QUESTION_CHARACTERS} is the most. Upload long text as a "
            "document and ask about it.",
            param=f"{at}.content",
            code="context_length_exceeded",
        )
    return text


def _history(messages: Sequence[ChatMessage], texts: Sequence[str]) -> tuple[Turn, ...]:
    earlier = zip(messages[:-1], texts[:-1], strict=True)
    return tuple(Turn(_HISTORY_ROLE[m.role], text) for m, text in earlier if m.role in _HISTORY_ROLE and text)


def _sampling(request: ChatRequest, defaults: AnswerSettings) -> Sampling:
    if request.stop is not None and "" in request.stop:
        raise InvalidRequest("A stop string must not be empty.", param="stop", code="invalid_value")
    return Sampling(
        max_tokens=request.max_completion_tokens or request.max_tokens or defaults.max_tokens,
        temperature=defaults.temperature if request.temperature is None else request.temperature,
        top_p=1.0 if request.top_p is None else request.top_p,
        stop=tuple(request.stop or ()),
        seed=request.seed,
        presence_penalty=request.presence_penalty or 0.0,
        frequency_penalty=request.frequency_penalty or 0.0,
        json_schema=_json_schema(request.response_format),
        length_given=(request.max_completion_tokens or request.max_tokens) is not None,
    )


def _json_schema(wanted: ResponseFormat | None) -> str | None:
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return _ANY_OBJECT
    if wanted.json_schema is None or wanted.json_schema.schema_ is None:
        at = "response_format.json_schema.schema"
        raise InvalidRequest(f"{at} is missing.", param=at, code="missing_required_parameter")
    return to_json(wanted.json_schema.schema_).decode()


def _refuse_unsupported(request: ChatRequest) -> None:
    """What would change the meaning of the answer is refused rather than ignored."""
    if request.n not in {None, 1}:
        raise _unsupported("n", "Only one answer a request is written: n must be 1.")
    if request.logprobs:
        raise _unsupported("logprobs", "Log probabilities are not available.")
    for name in ("tools", "functions"):
        if getattr(request, name):
            raise _unsupported(name, f"Calling {name} is not supported yet. Leave {name} out.")
    for name in ("tool_choice", "function_call"):
        if getattr(request, name) not in (None, "none", "auto"):
            raise _unsupported(name, f'Calling tools is not supported yet. Leave {name} out, or set it to "none".')
    if request.logit_bias:
        raise _unsupported("logit_bias", "Biasing single tokens is not supported. Leave logit_bias out.")


def _unsupported(param: str, message: str) -> InvalidRequest:
    return InvalidRequest(message, param=param, code="unsupported_parameter")
