"""What can go wrong at one replica, and what follows from it: the border at which foreign errors are mapped."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Mapping
from typing import Any

import httpx
from pydantic_core import from_json

from slipstream.errors import InvalidRequest, Overloaded, SlipstreamError, Unavailable

_SHOWN_CHARACTERS = 300
_CONTEXT_SIGNS = ("context length", "context size", "context_length", "maximum context", "max_total_tokens")
_DEFAULT_RETRY_S = 1.0
_LONGEST_RETRY_S = 3_600.0
_BUSY = frozenset({429, 503, 529})
_NOT_NOW = 503
"""From a health check: the server loads or drains."""
_OURS = frozenset({401, 403, 404, 405})
"""Key, address or model name do not suit this replica; the request is not at fault."""
_NO_SUCH_PATH = frozenset({404, 405})
_SERVER_ERROR = 500


class Fault(Exception):
    """A replica failed a request."""

    def __init__(
        self,
        error: SlipstreamError,
        *,
        elsewhere: bool = True,
        counts: bool = True,
        certain: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(error.message)
        self.error = error
        """What the caller is told when there is no other way."""
        self.elsewhere = elsewhere
        """Another replica may do better."""
        self.counts = counts
        """It says something about the replica's health."""
        self.certain = certain
        """Once is enough to stop asking it; for a busy one, from a health check only."""
        self.retry_after_s = retry_after_s
        """The replica is busy until then."""


def transport_fault(error: httpx.HTTPError) -> Fault:
    """Of what the HTTP client raised before or while it read."""
    if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
        return unreachable()
    return broken(f"broke the connection ({type(error).__name__})")


def unreachable() -> Fault:
    return Fault(_unavailable("cannot be reached"), certain=True)


def broken(what: str) -> Fault:
    return Fault(_unavailable(what))


def status_fault(status: int, headers: Mapping[str, str], body: bytes) -> Fault:
    """Of a response that is no success. The server's own words reach the caller only where the request is wrong."""
    if status in _BUSY:
        after_s = retry_after_s(headers.get("retry-after"))
        error = Overloaded("The language model's servers are busy. Try again later.", retry_after_s=after_s)
        return Fault(error, counts=False, certain=status == _NOT_NOW, retry_after_s=after_s)
    if status in _OURS:
        text = f"answered {status}: check the engine's api_key, base_urls and model in the settings"
        code = "engine_unlisted" if status in _NO_SUCH_PATH else "engine_refused"
        return Fault(_unavailable(text, code), certain=True)
    if status >= _SERVER_ERROR:
        return Fault(_unavailable(f"answered {status}"))
    said = _words(body)
    if any(sign in said.lower() for sign in _CONTEXT_SIGNS):
        code, text = "context_length_exceeded", f"The prompt and the answer do not fit the model's context. {said}"
    else:
        code, text = "engine_rejected", f"The language model's server rejects the request ({status}). {said}"
    return Fault(InvalidRequest(text.strip(), code=code, param="messages"), elsewhere=False, counts=False)


def event_fault(error: Any) -> Fault:
    """Of an error that came inside a stream."""
    code = error.get("code") if isinstance(error, dict) else None
    if code in _BUSY:
        return status_fault(int(code), {}, b"")
    return Fault(_unavailable("reported a failure within its answer", "engine_failed"))


def garbled(what: str) -> Fault:
    return Fault(_unavailable(f"sent {what}", "engine_garbled"))


def cut_short(what: str = "ended an answer without a finish reason") -> Fault:
    return Fault(_unavailable(what, "engine_cut_short"))


def silent(seconds: float, doing: str) -> Fault:
    return Fault(_unavailable(f"sent nothing for {seconds:g} s {doing}", "engine_silent"))


def retry_after_s(header: str | None) -> float:
    """Seconds from a Retry-After header: a number, or a date (RFC 9110, § 10.2.3)."""
    if header is None:
        return _DEFAULT_RETRY_S
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(header).timestamp() - time.time()
        except ValueError:
            return _DEFAULT_RETRY_S
    return min(max(seconds, 0.0), _LONGEST_RETRY_S) if seconds == seconds else _DEFAULT_RETRY_S


def _unavailable(what: str, code: str = "engine_unavailable") -> Unavailable:
    return Unavailable(f"A language model server {what}. Try again.", code=code, retry_after_s=_DEFAULT_RETRY_S)


def _words(body: bytes) -> str:
    """The message in an error's body, in any of the shapes servers give it; shortened."""
    try:
        said = from_json(body)
    except ValueError:
        said = body.decode("utf-8", "replace")
    for key in ("error", "message", "detail"):
        if isinstance(said, dict) and key in said:
            said = said[key]
    if isinstance(said, dict):
        said = said.get("message", "")
    return " ".join(str(said).split())[:_SHOWN_CHARACTERS]
