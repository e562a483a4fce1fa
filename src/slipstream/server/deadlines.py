"""The deadline a request asks for, in its body or by header: the shorter one counts."""

from __future__ import annotations

from slipstream.errors import InvalidRequest
from slipstream.server.exchange import Exchange

HEADER = b"x-slipstream-deadline-ms"
_MAX_DIGITS = 7


def deadline_ms(exchange: Exchange, asked_ms: int | None) -> int | None:
    """None when neither names one. Raises InvalidRequest for a header that is no count of milliseconds."""
    header = exchange.header(HEADER)
    if not header:
        return asked_ms
    if not (header.isascii() and header.isdigit() and len(header) <= _MAX_DIGITS and 1 <= int(header) <= 3_600_000):
        raise InvalidRequest(
            f'X-Slipstream-Deadline-Ms is "{header}"; give milliseconds, 1 to 3600000.',
            param="X-Slipstream-Deadline-Ms",
        )
    return min(int(header), asked_ms or int(header))
