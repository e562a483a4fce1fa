"""Who asks: an API key's tenant, or, on loopback without keys, the tenant named in the request."""

from __future__ import annotations

import hashlib
import hmac
import re
from urllib.parse import urlsplit

from slipstream.errors import Forbidden, InvalidRequest, Unauthorized
from slipstream.server.exchange import Exchange
from slipstream.settings import ServerSettings

DEFAULT_TENANT = "default"

_TENANT = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Gate:
    """Checks an exchange before anything is read from it."""

    def __init__(self, settings: ServerSettings) -> None:
        self._keys = tuple((_digest(k.key.get_secret_value()), k.tenant) for k in settings.api_keys)

    def tenant(self, exchange: Exchange) -> str | None:
        """The tenant the caller's key is bound to; None when the server has no keys.

        Raises Unauthorized without a valid key; Forbidden when, without keys, the request did not come from
        this machine's own programs.
        """
        if self._keys:
            return self._tenant_of_key(exchange)
        _require_loopback(exchange)
        return None

    def _tenant_of_key(self, exchange: Exchange) -> str:
        scheme, _, key = exchange.header(b"authorization").partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise Unauthorized("Send an API key: Authorization: Bearer KEY.", code="missing_api_key")
        given = _digest(key.strip())
        found: str | None = None
        for digest, tenant in self._keys:  # all of them, so that the time tells nothing
            if hmac.compare_digest(digest, given):
                found = tenant
        if found is None:
            raise Unauthorized("The API key is not one of server.api_keys.")
        return found


def resolve_tenant(bound: str | None, asked: str | None, param: str = "slipstream.tenant") -> str:
    """The tenant a request acts for; `param` is the field that `asked` came in.

    Raises Forbidden when the key is bound to another one, InvalidRequest when the name is not valid.
    """
    if asked is not None and not _TENANT.fullmatch(asked):
        raise InvalidRequest("A tenant's name has 1 to 64 letters, digits, dots, dashes or underscores.", param=param)
    if bound is None:
        return asked or DEFAULT_TENANT
    if asked not in {None, bound}:
        raise Forbidden(
            f'The API key is bound to another tenant than "{asked}". Leave {param} out, or use that tenant\'s key.',
            param=param,
        )
    return bound


def _require_loopback(exchange: Exchange) -> None:
    """Keeps web pages out: a name rebound to 127.0.0.1 shows in Host, a page that posts here in Origin.

    Source: W3C, Fetch, § 3.2 (Origin); Jackson et al., Protecting Browsers from DNS Rebinding, CCS 2007.
    """
    host = exchange.header(b"host")
    if _hostname(f"//{host}") not in _LOOPBACK:
        raise Forbidden(
            f'Without server.api_keys only requests to localhost are served, not to "{host}".', code="host_not_allowed"
        )
    origin = exchange.header(b"origin")
    if origin and _hostname(origin) not in _LOOPBACK:
        raise Forbidden(f'Without server.api_keys web pages from "{origin}" are not served.', code="origin_not_allowed")


def _hostname(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
