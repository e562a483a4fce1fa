"""Structured logs: one JSON object or one text line a record, with the request id and without secrets."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal, TextIO, TypeAlias

from pydantic import SecretStr
from pydantic_core import to_json

from slipstream.call import Call

Value: TypeAlias = str | int | float | bool | None
Format: TypeAlias = Literal["auto", "json", "text"]

REDACTED = "[redacted]"
_request_id: ContextVar[str] = ContextVar("slipstream_request_id", default="")
_access = logging.getLogger("slipstream.access")

_SECRETS = re.compile(
    r"""(?ix)
    (?P<keep> \bbearer\s+
      | \b(?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:bearer\s+|basic\s+)?
      | \b[\w-]*(?:api[_-]?key|access[_-]?token|password|secret)["']?\s*[:=]\s*["']? )
    (?P<secret> [^\s"',;&}\]]+ )
    | \b(?P<key> (?:sk|hf|pk)[-_][A-Za-z0-9_-]{8,} )
    | (?<=://)(?P<login> [^\s/@:]+:[^\s/@]+ )(?=@)
    """
)


_SIGNS = (
    *("bearer", "authorization", "password", "secret", "://", "sk-", "sk_", "hf-", "hf_", "pk-", "pk_"),
    *("apikey", "api_key", "api-key", "accesstoken", "access_token", "access-token"),
)
"""In lower case: a text with none of them holds nothing that `_SECRETS` finds, and most have none."""


class request_id:  # noqa: N801 - read as a verb: `with request_id(...)`
    """Every record logged inside, in tasks and worker threads started inside too, carries this id."""

    __slots__ = ("_token", "_value")

    def __init__(self, value: str) -> None:
        self._value = value

    def __enter__(self) -> None:
        self._token = _request_id.set(self._value)

    def __exit__(self, *raised: object) -> None:
        _request_id.reset(self._token)


def event(log: logging.Logger, level: int, message: str, **fields: Value) -> None:
    """Logs a message with named values. Never put text of questions or passages here."""
    if log.isEnabledFor(level):
        # not log.log(): looking up the caller's line, which no format shows, would be half the cost of the record
        log.handle(log.makeRecord(log.name, level, "", 0, message, (), None, extra={"fields": fields}))


def access(call: Call, *, method: str, route: str, status: int, duration_s: float) -> None:
    """The one line of a request: what it was, how it ended, and where its time went (milliseconds)."""
    stages = {f"{span.name}_ms": round(span.duration_s * 1_000, 1) for span in call.spans if span.duration_s > 0}
    marks = {f"{span.name}_at_ms": round(span.start_s * 1_000, 1) for span in call.spans if span.end_s == span.start_s}
    fields: dict[str, Value] = {"status": status, "ms": round(duration_s * 1_000, 1), **stages, **marks}
    if call.degraded:
        fields["degraded"] = ",".join(call.degraded)
    with request_id(call.request_id):
        event(_access, logging.INFO, f"{method} {route}", tenant=call.tenant, **fields)


def configure_logging(
    style: Format = "auto",
    level: int | str = logging.INFO,
    *,
    stream: TextIO | None = None,
    secrets: Iterable[SecretStr] = (),
) -> None:
    """Sends all records of the process to `stream` (standard error); "auto" is text on a terminal, else JSON.

    `secrets` are blotted out wherever they occur; so is what looks like a credential.
    """
    stream = stream or sys.stderr
    style = ("text" if stream.isatty() else "json") if style == "auto" else style
    known = tuple(secret.get_secret_value() for secret in secrets)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter(known) if style == "json" else TextFormatter(known))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in ("httpx", "httpcore", "uvicorn.access"):
        logging.getLogger(name).setLevel(logging.WARNING)


def redact(text: str, known: Iterable[str] = ()) -> str:
    """Blots out the secrets given, and whatever looks like a credential."""
    for secret in known:
        if secret:
            text = text.replace(secret, REDACTED)
    lowered = text.lower()
    if not any(sign in lowered for sign in _SIGNS):
        return text
    return _SECRETS.sub(_blot, text)


def _blot(match: re.Match[str]) -> str:
    return (match["keep"] or "") + REDACTED


class _Formatter(logging.Formatter):
    """Redacts each whole line once, whatever part of it a secret is in."""

    def __init__(self, known: tuple[str, ...]) -> None:
        super().__init__()
        self._known = known

    def format(self, record: logging.LogRecord) -> str:
        return redact(self._line(record), self._known)

    def _line(self, record: logging.LogRecord) -> str:
        raise NotImplementedError

    def _fields(self, record: logging.LogRecord) -> Mapping[str, Value]:
        fields: Mapping[str, Value] = getattr(record, "fields", {})
        return fields

    def _trace(self, record: logging.LogRecord) -> str:
        return self.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""


class JsonFormatter(_Formatter):
    def _line(self, record: logging.LogRecord) -> str:
        line: dict[str, Value] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if identity := _request_id.get():
            line["request_id"] = identity
        line.update({name: value for name, value in self._fields(record).items() if name not in line})
        if trace := self._trace(record):
            line["trace"] = trace
        return to_json(line, serialize_unknown=True).decode()


class TextFormatter(_Formatter):
    def _line(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        parts = [time, f"{record.levelname:<8}", record.getMessage()]
        parts += [f"{name}={_quoted(value)}" for name, value in self._fields(record).items()]
        if identity := _request_id.get():
            parts.append(f"[{identity}]")
        line = " ".join(parts).replace("\n", "\\n")
        trace = self._trace(record)
        return f"{line}\n{trace}" if trace else line


def _quoted(value: Value) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if re.search(r'[\s"=]', text) else text
