"""The way to a replica through the environment's proxy, by a general client."""

from __future__ import annotations

import urllib.request
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit

import httpx

from slipstream.models.remote.faults import transport_fault


def has_proxy(url: str) -> bool:
    """Whether the environment (`HTTPS_PROXY`, `NO_PROXY`) sends this address through a proxy."""
    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    known = parts.scheme in proxies or "all" in proxies
    return known and not urllib.request.proxy_bypass(parts.hostname or "")


class Proxied:
    """Implements `Opener`."""

    def __init__(self, base_url: str, http: httpx.AsyncClient) -> None:
        """`http` has the key and the proxy, and is closed by its owner."""
        self._url = f"{base_url}/chat/completions"
        self._http = http

    async def open(self, body: bytes, request_id: str) -> ProxiedBody:
        headers = {"content-type": "application/json", "accept": "text/event-stream", "x-request-id": request_id}
        request = self._http.build_request("POST", self._url, content=body, headers=headers)
        try:
            return ProxiedBody(await self._http.send(request, stream=True))
        except httpx.HTTPError as error:
            raise transport_fault(error) from error

    async def close(self) -> None:
        """Nothing here is its own."""


class ProxiedBody:
    """Implements `Body`."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._pieces: AsyncIterator[bytes] = response.aiter_raw()

    @property
    def status(self) -> int:
        return self._response.status_code

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    async def read(self) -> bytes:
        try:
            return await anext(self._pieces, b"")
        except httpx.HTTPError as error:
            raise transport_fault(error) from error

    async def close(self) -> None:
        await self._response.aclose()
