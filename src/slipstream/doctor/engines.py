"""Checks of remote engines: each replica answers, takes the key, and serves the model."""

from __future__ import annotations

from collections.abc import Iterator

import httpx

from slipstream.doctor.check import Check
from slipstream.settings import RemoteEngineSettings, Settings, remote_engine

_TIMEOUT_S = 5.0


def check_engines(settings: Settings) -> Iterator[Check]:
    tiers = (
        ("small", settings.engines.small, settings.models.small),
        ("large", settings.engines.large, settings.models.large),
    )
    for tier, engine, name in tiers:
        engine = engine or remote_engine(name or "")
        if engine is not None:
            for url in engine.base_urls:
                yield _replica(f"{tier} engine", url, engine)


def _replica(role: str, url: str, engine: RemoteEngineSettings) -> Check:
    headers = {} if engine.api_key is None else {"authorization": f"Bearer {engine.api_key.get_secret_value()}"}
    try:
        response = httpx.get(f"{url}/models", headers=headers, timeout=_TIMEOUT_S)
        ids = [str(card["id"]) for card in response.json()["data"]] if response.is_success else []
    except httpx.HTTPError as error:
        advice = "Start the engine, or correct base_urls."
        return Check(role, "fail", f"{url} does not answer ({type(error).__name__}).", advice)
    except (ValueError, KeyError, TypeError):
        return Check(role, "fail", f"{url}/models lists no models.", "Correct base_urls: the address ends in /v1.")
    if response.status_code in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
        return Check(role, "fail", f"{url} refuses the key.", "Correct the engine's api_key.")
    if not response.is_success:
        return Check(role, "warn", f"{url}/models answers {response.status_code}.", "See whether the engine is up.")
    if engine.model and engine.model not in ids:
        return Check(role, "fail", f"{url} does not list {engine.model!r}.", f"It lists {', '.join(ids[:8])}.")
    return Check(role, "ok", f"{url} serves {engine.model or ', '.join(ids[:1])}.")
