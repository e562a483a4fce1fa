"""Errors → the wire: OpenAI's error object with a stable code, a sentence that says what to do, and the request id."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

from pydantic_core import to_json
from starlette.exceptions import HTTPException

from slipstream.errors import (
    Bug,
    ConfigError,
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    Overloaded,
    SlipstreamError,
    TryAgain,
    Unauthorized,
)
from slipstream.server.exchange import JSON_TYPE, Exchange, Header

log = logging.getLogger("slipstream.server")

_STATUS_OF_CODE = {"method_not_allowed": 405, "request_timeout": 408, "unsupported_media_type": 415}
_TYPE_OF_STATUS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_DEFAULT_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as the client sees it."""

    status: int
    body: bytes
    """`{"error": {message, type, param, code, request_id}}`"""
    headers: tuple[Header, ...]


def failure_of(error: Exception, request_id: str) -> Failure:
    """Maps any exception; one that is not ours is logged whole and shown without its details."""
    known = _known(error)
    if isinstance(known, Bug | ConfigError):
        log.error("request %s failed", request_id, exc_info=error)
        known = Bug(f"Something failed inside the server. Report it with request id {request_id}.")
    status = _STATUS_OF_CODE.get(known.code, known.status)
    body = {
        "error": {
            "message": known.message,
            "type": _TYPE_OF_STATUS.get(status, "server_error" if status >= 500 else "invalid_request_error"),
            "param": known.param,
            "code": known.code,
            "request_id": request_id,
        }
    }
    return Failure(status, to_json(body), (JSON_TYPE, *_headers(known), *_allow(error)))


async def respond_failure(exchange: Exchange, error: Exception) -> None:
    """Answers with the failure; a body not read to its end also ends the connection."""
    failure = failure_of(error, exchange.request_id)
    headers = [*failure.headers]
    if failure.status in {408, 413}:
        headers.append((b"connection", b"close"))
    await exchange.respond(failure.status, failure.body, headers)


def _known(error: Exception) -> SlipstreamError:
    if isinstance(error, SlipstreamError):
        return error
    if isinstance(error, HTTPException):
        if error.status_code == 404:
            return NotFound("There is nothing at this path. The API is described in the README.", code="unknown_path")
        if error.status_code == 405:
            return InvalidRequest(
                "This path does not take this method; see the Allow header.", code="method_not_allowed"
            )
        return InvalidRequest(error.detail)
    return Bug(repr(error))


def _headers(error: SlipstreamError) -> list[Header]:
    """How to retry: the official clients obey all three."""
    if isinstance(error, Unauthorized):
        return [(b"www-authenticate", b"Bearer")]
    if isinstance(error, DeadlineExceeded):
        return [(b"x-should-retry", b"false")]  # the same deadline would pass again, at the same cost
    if isinstance(error, Bug):
        return [(b"x-should-retry", b"false")]
    if not isinstance(error, TryAgain):
        return []
    wait_s = error.retry_after_s if error.retry_after_s is not None else _DEFAULT_RETRY_S
    return [
        (b"retry-after", str(max(1, math.ceil(wait_s))).encode()),
        (b"retry-after-ms", str(max(1, math.ceil(wait_s * 1000))).encode()),
        *([(b"x-should-retry", b"true")] if isinstance(error, Overloaded) else []),
    ]


def _allow(error: Exception) -> list[Header]:
    if not isinstance(error, HTTPException) or not error.headers:
        return []
    return [(k.lower().encode(), v.encode()) for k, v in error.headers.items() if k.lower() == "allow"]
