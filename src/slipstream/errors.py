"""One tree of errors, by what the caller can do about them.

    SlipstreamError
    ├── Refused          the request is wrong or not allowed: change it
    │   ├── InvalidRequest     400
    │   ├── Unauthorized       401
    │   ├── Forbidden          403
    │   ├── NotFound           404
    │   ├── TooLarge           413
    │   └── ConfigError        a setting, a file or a command is wrong (never from a request)
    ├── TryAgain         the same request may succeed later
    │   ├── Overloaded         429, with retry_after_s
    │   ├── DeadlineExceeded   504
    │   └── Unavailable        503: a part is down, warming up or unreachable
    ├── DataError        a file or stored datum is unusable; the rest goes on
    └── Bug              500: ours to mend

Adapters map foreign errors to these once, at their border. `code` is stable and part of the API;
the message says what to do.
"""

from __future__ import annotations


class SlipstreamError(Exception):
    """Base of every error a caller may see."""

    status = 500
    code = "internal_error"

    def __init__(self, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        """The request field at fault, when there is one."""
        if code is not None:
            self.code = code


class Refused(SlipstreamError):
    status = 400
    code = "refused"


class InvalidRequest(Refused):
    code = "invalid_request"


class Unauthorized(Refused):
    status = 401
    code = "invalid_api_key"


class Forbidden(Refused):
    status = 403
    code = "forbidden"


class NotFound(Refused):
    status = 404
    code = "not_found"


class TooLarge(Refused):
    status = 413
    code = "too_large"


class ConfigError(Refused):
    status = 500
    code = "config_error"


class TryAgain(SlipstreamError):
    status = 503
    code = "try_again"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, code=code, param=param)
        self.retry_after_s = retry_after_s


class Overloaded(TryAgain):
    status = 429
    code = "overloaded"


class DeadlineExceeded(TryAgain):
    status = 504
    code = "deadline_exceeded"


class Unavailable(TryAgain):
    status = 503
    code = "unavailable"


class DataError(SlipstreamError):
    status = 422
    code = "unusable_data"


class Bug(SlipstreamError):
    code = "internal_error"
