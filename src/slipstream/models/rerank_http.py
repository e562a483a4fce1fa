"""A cross-encoder behind HTTP: TEI, Infinity, vLLM, Jina, Cohere and what speaks like them."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import httpx

from slipstream.errors import ConfigError, InvalidRequest, Overloaded, SlipstreamError, TryAgain, Unavailable
from slipstream.models.rerank_wire import SHAPES, WrongReply, endpoint, scores_in
from slipstream.settings import CrossEncoderSettings

log = logging.getLogger(__name__)

_REPLY_BYTES = 8 << 20
"""A reply larger than this is none."""
_PASSING = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed; scoring changes nothing, so that sending it twice is safe."""
_CONFIGURED_WRONG = frozenset({401, 403, 404, 405})
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.05, 0.5
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class HttpCrossEncoder:
    """Implements models.base.CrossEncoder; pairs of one query go as one request, those of several side by side.

    A request and its retries end within `timeout_ms`, whatever the server does; redirects are not followed, so that
    the key stays where it was sent.
    """

    def __init__(self, url: str, settings: CrossEncoderSettings, *, draw: Callable[[], float] = random.random) -> None:
        self._settings = settings
        self._shape = SHAPES[settings.api]
        self._url = endpoint(url, self._shape)
        self._where = _shown(self._url)
        self.name = settings.model or self._where
        self._draw = draw
        self._running = 0
        key = settings.api_key
        self._http = httpx.AsyncClient(
            headers={"authorization": f"Bearer {key.get_secret_value()}"} if key else {},
            timeout=settings.timeout_ms / 1000,
            limits=httpx.Limits(max_connections=settings.max_concurrent, keepalive_expiry=30.0),
            trust_env=urlsplit(self._url).hostname not in _LOOPBACK,
        )

    async def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Scores as the server gives them.

        Raises Overloaded above `max_concurrent` requests, Unavailable when the server is not to be had in time or
        its reply is no ranking, ConfigError when it refuses the key or the path, InvalidRequest when it refuses
        the pairs.
        """
        places: dict[str, list[int]] = {}
        for place, (query, _) in enumerate(pairs):
            places.setdefault(query, []).append(place)
        groups = [(query, [pairs[i][1] for i in own]) for query, own in places.items()]
        scores = [0.0] * len(pairs)
        for own, group in zip(places.values(), await self._all(groups), strict=True):
            for place, score in zip(own, group, strict=True):
                scores[place] = score
        return scores

    async def warm_up(self) -> None:
        """Asks once. A server that is not there yet is no reason not to start: answers go without it meanwhile.

        Raises ConfigError when it refuses the key, the path or the shape of the request.
        """
        try:
            await self.score([("warm up", "warm up")])
        except InvalidRequest as error:
            raise ConfigError(f"{error.message} See that cross_encoder.api and cross_encoder.model are its.") from error
        except TryAgain as error:
            log.warning("Starting without the cross-encoder; it is tried again with each question. %s", error)

    async def close(self) -> None:
        await self._http.aclose()

    async def _all(self, groups: Sequence[tuple[str, Sequence[str]]]) -> list[list[float]]:
        """Side by side; the first failure ends them all."""
        if len(groups) == 1:
            return [await self._ranked(*groups[0])]
        tasks = [asyncio.ensure_future(self._ranked(*group)) for group in groups]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _ranked(self, query: str, passages: Sequence[str]) -> list[float]:
        if self._running >= self._settings.max_concurrent:
            raise Overloaded(f"{self._running} requests to {self._where} are under way already.", retry_after_s=1.0)
        self._running += 1
        body = self._shape.body(self._settings.model, query, passages)
        attempt, last = 0, ""
        try:
            async with asyncio.timeout(self._settings.timeout_ms / 1000) as limit:
                while True:
                    try:
                        return await self._once(body, len(passages))
                    except TryAgain as error:
                        pause_s, last = self._pause_s(attempt, error), f" {error.message}"
                        ends_s = asyncio.get_running_loop().time() + pause_s
                        if attempt == self._settings.retries or ends_s >= (limit.when() or 0.0):
                            raise
                    await asyncio.sleep(pause_s)
                    attempt += 1
        except TimeoutError:
            raise Unavailable(f"{self._where} did not rank in {self._settings.timeout_ms} ms.{last}") from None
        finally:
            self._running -= 1

    def _pause_s(self, attempt: int, error: TryAgain) -> float:
        """What the server asked for, or a growing part that is drawn, so that those who failed together spread."""
        if error.retry_after_s is not None:
            return error.retry_after_s
        return float(min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2**attempt) * (0.5 + 0.5 * self._draw()))

    async def _once(self, body: dict[str, Any], count: int) -> list[float]:
        try:
            async with self._http.stream("POST", self._url, json=body) as response:
                content = await self._content(response)
        except httpx.TransportError as error:
            what = type(error).__name__
            raise Unavailable(f"{self._where} cannot be reached ({what}). See that it runs.") from error
        except (httpx.InvalidURL, httpx.HTTPError) as error:
            raise ConfigError(f"models.cross_encoder: {self._where} cannot be asked: {error}") from error
        if response.status_code != HTTPStatus.OK:
            raise self._refusal(response, content)
        try:
            return scores_in(self._shape, json.loads(content), count)
        except (ValueError, RecursionError) as error:
            how = str(error) if isinstance(error, WrongReply) else "it is not JSON"
            raise Unavailable(
                f"The reply of {self._where} is no ranking: {how}. See that cross_encoder.api names its kind.",
                code="bad_ranking",
            ) from error

    async def _content(self, response: httpx.Response) -> bytes:
        pieces, size = [], 0
        async for piece in response.aiter_bytes():
            pieces.append(piece)
            size += len(piece)
            if size > _REPLY_BYTES:
                raise Unavailable(f"The reply of {self._where} is larger than {_REPLY_BYTES >> 20} MiB.")
        return b"".join(pieces)

    def _refusal(self, response: httpx.Response, content: bytes) -> SlipstreamError:
        """Its own words are kept to a line: they go to a log, and may go to a client."""
        status = response.status_code
        said = f"{self._where} answered {status}: {' '.join(content[:200].decode('utf-8', 'replace').split())}"
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            return Overloaded(said, retry_after_s=_retry_after_s(response))
        if status in _PASSING:
            return Unavailable(said, retry_after_s=_retry_after_s(response))
        if status in _CONFIGURED_WRONG or response.is_redirect:
            return ConfigError(f"{said}. Correct models.cross_encoder, cross_encoder.api or cross_encoder.api_key.")
        return InvalidRequest(said, code="refused_by_reranker")


def _retry_after_s(response: httpx.Response) -> float | None:
    value = response.headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() else None


def _shown(url: str) -> str:
    """Without credentials or query, which may be secret."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"
