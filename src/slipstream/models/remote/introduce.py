"""The first talk with a tier's servers: what they are, what they serve, how they count."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slipstream.call import Deadline
from slipstream.errors import ConfigError, Unavailable
from slipstream.models.remote.counting import TokenCounter
from slipstream.models.remote.faults import Fault
from slipstream.models.remote.kinds import KINDS, Kind, kind_of
from slipstream.models.remote.replica import Replica
from slipstream.settings import RemoteEngineSettings
from slipstream.types import Message

DEFAULT_CONTEXT_TOKENS = 8_192
_CONTEXT_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")
_ASK_AGAIN_S = 0.5
_SAMPLES = (
    "A connection pool keeps a number of connections open, so that a request need not wait until one is made. When all "
    "of them are in use, the next request waits; after thirty seconds it is refused with an error that says why.",
    "连接池会保持一定数量的连接处于打开状态，这样请求就不必等待新连接的建立。当所有连接都在使用中时，下一个请求会排队等待；"
    "如果三十秒之后仍然没有空闲的连接，该请求将被拒绝，并返回一条说明原因的错误信息。",
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Introduction:
    """What a server said of itself."""

    kind: Kind
    model: str
    context_tokens: int
    health: str
    """The path that its health is asked at; empty when it has none."""


async def introduce(
    replicas: Sequence[Replica],
    settings: RemoteEngineSettings,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Introduction:
    """Waits until a replica answers, as long as the settings allow.

    Raises Unavailable when none does, ConfigError when one refuses the key or does not serve the model.
    """
    deadline = Deadline.after(settings.start_s)
    said: set[str] = set()
    while True:
        for replica in replicas:
            try:
                return await _ask(replica, settings)
            except Fault as fault:
                if fault.error.code in {"engine_refused", "engine_unlisted"}:
                    raise ConfigError(f"The engine at {replica.label}: {fault.error.message}") from fault
                if replica.label not in said:
                    said.add(replica.label)
                    log.info("Waiting for the engine at %s: %s", replica.label, fault.error.message)
        if deadline.remaining_s() <= 0:
            labels = ", ".join(replica.label for replica in replicas)
            raise Unavailable(
                f"No engine answered within {settings.start_s:g} s: {labels}. Start one, or correct base_urls."
            )
        await sleep(_ASK_AGAIN_S)


async def _ask(replica: Replica, settings: RemoteEngineSettings) -> Introduction:
    listed = await _listed(replica, settings)
    cards = [card for card in _list(listed) if isinstance(card, dict)]
    card = next((card for card in cards if card.get("id") == settings.model), None)
    if card is None and settings.model and cards and settings.kind not in {"openai", "slipstream"}:
        names = ", ".join(str(card.get("id")) for card in cards[:8])
        raise ConfigError(f"The engine at {replica.label} does not serve {settings.model!r}; it lists {names}.")
    card = card or (cards[0] if cards else {})
    model = settings.model or str(card.get("id", ""))
    if not model:
        raise ConfigError(f"The engine at {replica.label} lists no model; name one in the settings.")
    kind, context = await _kind(replica, settings, card)
    health = kind.health if kind.health != "/v1/models" or listed is not None else ""
    if health:
        await replica.get(health)
    context = next((card[field] for field in _CONTEXT_FIELDS if isinstance(card.get(field), int)), context)
    context = settings.context_tokens if context is None else min(context, settings.context_tokens or context)
    return Introduction(kind, model, context or DEFAULT_CONTEXT_TOKENS, health)


async def _listed(replica: Replica, settings: RemoteEngineSettings) -> Any:
    """What the server says it serves. Some list nothing, which does no harm when the model is named."""
    try:
        return await replica.get("/v1/models")
    except Fault as fault:
        if fault.error.code == "engine_unlisted" and settings.model:
            return None
        raise


async def _kind(replica: Replica, settings: RemoteEngineSettings, card: dict[str, Any]) -> tuple[Kind, int | None]:
    """The family, and the context where only a path of the family's own tells it."""
    kind = KINDS[settings.kind] if settings.kind != "auto" else kind_of(str(card.get("owned_by", "")))
    if kind is None or kind.name == "tgi":
        total = await _number(replica, "/info", "max_total_tokens")
        if total is not None:
            return KINDS["tgi"], total
    if kind is not None and kind.name == "llama":
        return kind, await _number(replica, "/props", "default_generation_settings", "n_ctx")
    return kind or KINDS["other"], None


async def _number(replica: Replica, path: str, *keys: str) -> int | None:
    try:
        found = await replica.get(path)
    except Fault:
        return None
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, int) else None


def _list(listed: Any) -> list[Any]:
    data = listed.get("data") if isinstance(listed, dict) else None
    return data if isinstance(data, list) else []


async def calibrate(replica: Replica, said: Introduction, counter: TokenCounter) -> None:
    """Teaches the counter by the server's own tokenizer, where it lends it."""
    if said.kind.tokenize is None:
        return
    try:
        texts = [await count_text(replica, said, text) for text in _SAMPLES]
        for text, tokens in zip(_SAMPLES, texts, strict=True):
            counter.calibrate(text, tokens)
        messages = (Message("system", _SAMPLES[0]), Message("user", _SAMPLES[1]))
        counted = await count_messages(replica, said, messages)
        if counted is not None:
            counter.calibrate_template(counted - sum(texts), len(messages))
    except Fault as fault:
        log.info("The engine at %s does not count tokens: %s", replica.label, fault.error.message)


async def count_text(replica: Replica, said: Introduction, text: str) -> int:
    """Raises Fault."""
    tokenize = said.kind.tokenize
    assert tokenize is not None
    body: dict[str, Any] = {tokenize.text: text, **({"model": said.model} if tokenize.named else {})}
    return _counted(await replica.post(tokenize.text_path, body))


async def count_messages(replica: Replica, said: Introduction, messages: Sequence[Message]) -> int | None:
    """With the chat template applied; None where the server does not. Raises Fault."""
    tokenize = said.kind.tokenize
    if tokenize is None or not tokenize.messages_path:
        return None
    turns = [{"role": message.role, "content": message.text} for message in messages]
    body: dict[str, Any] = {tokenize.messages: turns, "model": said.model}
    return _counted(await replica.post(tokenize.messages_path, body))


def _counted(answer: Any) -> int:
    """`{"count": n}`, `{"tokens": [...]}`, `{"tokenize_response": [...]}` or a bare list."""
    if isinstance(answer, dict):
        if isinstance(answer.get("count"), int):
            return int(answer["count"])
        answer = answer.get("tokens", answer.get("tokenize_response"))
    if isinstance(answer, list):
        return len(answer)
    raise Fault(Unavailable("The engine counts tokens in a way that is not known here."), counts=False)
