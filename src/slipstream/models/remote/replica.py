"""One replica: the ways to it, its health as seen from here, and what it is doing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import httpx
from pydantic_core import from_json

from slipstream.call import Clock
from slipstream.errors import Bug
from slipstream.models.remote.body import Body, Opener
from slipstream.models.remote.breaker import Breaker
from slipstream.models.remote.direct import Direct
from slipstream.models.remote.faults import Fault, garbled, status_fault, transport_fault
from slipstream.models.remote.proxied import Proxied, has_proxy
from slipstream.settings import RemoteEngineSettings

_PROBE_S = 5.0
_MAX_BODY_BYTES = 1 << 20


class Replica:
    """Counts what it does; the choice among replicas is not made here."""

    def __init__(self, base_url: str, settings: RemoteEngineSettings, clock: Clock = time.monotonic) -> None:
        parts = urlsplit(base_url)
        self.label = parts.netloc + (parts.path if parts.path != "/v1" else "")
        """For logs and metrics: host and port, and the path when it is an unusual one."""
        self.url = base_url
        self.breaker = Breaker(clock)
        self.in_flight = 0
        self.waiting = 0
        """Of those in flight, how many have no token yet."""
        self.requests = 0
        self.failures = 0
        self.busy_until_s = 0.0
        self._clock = clock
        self._settings = settings
        self._http: httpx.AsyncClient | None = None
        self._opener: Opener | None = None

    def connect(self) -> None:
        """Connects to nothing yet. Needs the event loop that will use it."""
        settings, proxied = self._settings, has_proxy(self.url)
        key = settings.api_key
        self._http = httpx.AsyncClient(
            headers={} if key is None else {"authorization": f"Bearer {key.get_secret_value().strip()}"},
            timeout=httpx.Timeout(None, connect=settings.connect_s),
            limits=httpx.Limits(max_connections=settings.max_concurrency + 8, keepalive_expiry=4.0),
            trust_env=proxied,
        )
        self._opener = Proxied(self.url, self._http) if proxied else Direct(self.url, settings)

    async def close(self) -> None:
        if self._opener is not None:
            await self._opener.close()
        if self._http is not None:
            await self._http.aclose()

    # --- what the choice among replicas looks at ---

    @property
    def available(self) -> bool:
        """A request may begin here now."""
        return self.in_flight < self._settings.max_concurrency and self.breaker.allows and self.busy_for_s == 0

    @property
    def busy_for_s(self) -> float:
        """Seconds until the time that its last Retry-After named."""
        return max(0.0, self.busy_until_s - self._clock())

    def began(self) -> None:
        """A request begins; `ended` follows."""
        self.breaker.begin()
        self.requests += 1
        self.in_flight += 1

    def ended(self) -> None:
        self.in_flight -= 1

    def failed(self, fault: Fault) -> None:
        """Takes note of a fault of this replica."""
        if fault.retry_after_s is not None:
            self.busy_until_s = max(self.busy_until_s, self._clock() + fault.retry_after_s)
        if fault.counts:
            self.failures += 1
            self.breaker.failure(fault.certain)
        else:
            self.breaker.abandoned()

    # --- the wire ---

    async def stream(self, body: bytes, request_id: str) -> Body:
        """The event stream of a generation, not yet read. Raises Fault."""
        if self._opener is None:
            raise Bug("A replica was asked before it was connected.")
        response = await self._opener.open(body, request_id)
        try:
            await _check(response)
        except BaseException:
            await response.close()
            raise
        return response

    async def get(self, path: str) -> Any:
        """JSON of a path from the root; None for a body that is none. Raises Fault."""
        return await self._ask("GET", path, None)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The same for a request with a JSON body."""
        return await self._ask("POST", path, body)

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        url = f"{self.url}{path[3:]}" if path.startswith("/v1/") else f"{self.url.removesuffix('/v1')}{path}"
        if self._http is None:
            raise Bug("A replica was asked before it was connected.")
        try:
            async with asyncio.timeout(_PROBE_S):
                response = await self._http.request(method, url, json=body)
        except TimeoutError:
            raise transport_fault(httpx.ReadTimeout("no answer")) from None
        except httpx.HTTPError as error:
            raise transport_fault(error) from error
        if not response.is_success:
            raise status_fault(response.status_code, response.headers, response.content[:_MAX_BODY_BYTES])
        try:
            return from_json(response.content)
        except ValueError:
            return None


async def _check(response: Body) -> None:
    if response.status != HTTPStatus.OK:
        raise status_fault(response.status, response.headers, await _short_body(response))
    if "text/event-stream" not in response.headers.get("content-type", ""):
        raise garbled("no event stream: does its address end in /v1?")


async def _short_body(response: Body) -> bytes:
    body = b""
    while len(body) < _MAX_BODY_BYTES and (piece := await response.read()):
        body += piece
    return body
