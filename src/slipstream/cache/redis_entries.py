"""Answers in Redis, shared by gateway replicas; each replica keeps the vectors of the scopes it meets in memory."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import redis.asyncio as aioredis
from pydantic_core import to_json
from redis.exceptions import RedisError

from slipstream.cache.codec import decode_entry, encode_entry
from slipstream.cache.entry import EntriesInfo, Entry, Feedback, Neighbour, Purge
from slipstream.cache.keys import digest
from slipstream.cache.vectors import ScopeVectors, graph_of
from slipstream.errors import Unavailable
from slipstream.types import Vector

T = TypeVar("T")

_TIMEOUT_S = 0.25
"""A cache that takes longer than this is no help."""
_SCOPES = 256
"""Of which vectors are kept here; the others are read again when they are met."""
_MAX_FEEDBACK = 100_000


@dataclass(slots=True)
class _Local:
    vectors: ScopeVectors
    seen: int = 0
    """Number of the last entry of the scope that was read."""


class RedisEntries:
    """Meets Entries.

    Keys, under one prefix: `e:{id}` an entry as a hash, `x:{scope}:{text}` the id of exact words, `n:{scope}` a
    counter and `s:{scope}` the scope's entries by that number, so that a replica reads only what is new to it;
    `t:{tenant}`, `g:{tenant}:{tag}` and `d:{tenant}:{document}:{collection}` sets of ids for purging. Everything
    expires with the entries; how many bytes there may be is Redis's own `maxmemory`, with an LFU policy.
    """

    def __init__(
        self,
        url: str,
        *,
        dimensions: int,
        max_age_s: float,
        prefix: str = "slipstream:cache:",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._redis: Any = aioredis.Redis.from_url(
            url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S, health_check_interval=30
        )
        self._prefix = prefix
        self._dimensions = dimensions
        self._max_age_s = max(1, int(max_age_s))
        self._clock = clock
        self._local: OrderedDict[str, _Local] = OrderedDict()

    async def open(self) -> None:
        """Does not wait for Redis: a gateway starts without its cache."""

    async def close(self) -> None:
        await self._redis.aclose()

    async def exact(self, scope: str, text: str) -> Entry | None:
        entry_id = await self._do(self._redis.get(self._exact_key(scope, text)))
        found = await self.get([entry_id.decode()]) if entry_id else ()
        return found[0] if found and found[0].text == text and found[0].scope == scope else None

    async def nearest(self, scope: str, vector: Vector, limit: int) -> Sequence[Neighbour]:
        local = self._scope(scope)
        await self._catch_up(scope, local)
        return local.vectors.nearest(vector, limit)

    async def get(self, entry_ids: Sequence[str]) -> Sequence[Entry]:
        if not entry_ids:
            return ()
        found = await self._pipelined(("hget", self._key("e", entry_id), "data") for entry_id in entry_ids)
        entries = [decode_entry(data) for data in found if data]
        self._forget(entry_id for entry_id, data in zip(entry_ids, found, strict=True) if not data)
        return entries

    async def put(self, entry: Entry) -> None:
        number = await self._do(self._redis.incr(self._key("n", entry.scope)))
        exact = self._exact_key(entry.scope, entry.text)
        older = await self._do(self._redis.get(exact))
        if older:
            await self._delete(entry.tenant, [older.decode()])
        age = self._max_age_s
        entry_key, by_number = self._key("e", entry.id), self._key("s", entry.scope)
        tenant = self._key("t", entry.tenant)
        fields = {"data": encode_entry(entry), "hits": 0, "cost_s": entry.cost_s, "stored_at": entry.stored_at}
        sets = [tenant, *([self._key("g", entry.tenant, entry.tag)] if entry.tag else [])]
        sets += [self._key("d", entry.tenant, cited.document_id, cited.collection) for cited in entry.cited]
        commands: list[tuple[Any, ...]] = [
            ("hset", entry_key, None, None, fields),
            ("expire", entry_key, age),
            ("set", exact, entry.id),
            ("expire", exact, age),
            ("zadd", by_number, {entry.id: number}),
            ("expire", by_number, age),
            ("expire", self._key("n", entry.scope), age + 60),
        ]
        for key in sets:
            commands += [("sadd", key, entry.id), ("expire", key, age)]
        await self._pipelined(commands)

    async def hit(self, entry_id: str) -> None:
        await self._do(self._redis.eval(_HIT, 1, self._key("e", entry_id)))

    async def purge(self, tenant: str, which: Purge) -> int:
        ids = await self._chosen(tenant, which)
        return await self._delete(tenant, sorted(ids))

    async def record(self, feedback: Feedback) -> None:
        key = self._key("feedback", feedback.tenant)
        await self._pipelined([("rpush", key, to_json(feedback)), ("ltrim", key, -_MAX_FEEDBACK, -1)])

    async def info(self, tenant: str | None = None) -> EntriesInfo:
        """One round trip for every entry's figures: for people, not for the path."""
        if tenant is not None:
            ids = [raw.decode() for raw in await self._do(self._redis.smembers(self._key("t", tenant)))]
        else:
            cut = len(self._key("e", ""))
            ids = [raw.decode()[cut:] async for raw in self._redis.scan_iter(self._key("e", "*"), count=1_000)]
        figures = await self._pipelined(("hmget", self._key("e", i), ["hits", "cost_s", "stored_at"]) for i in ids)
        sizes = await self._pipelined(("hstrlen", self._key("e", i), "data") for i in ids)
        there = [
            (int(hits), float(cost_s), float(at), int(size))
            for (hits, cost_s, at), size in zip(figures, sizes, strict=True)
            if at is not None
        ]
        return EntriesInfo(
            entries=len(there),
            bytes=sum(size for *_, size in there),
            oldest_at=min((at for _, _, at, _ in there), default=None),
            hits=sum(hits for hits, *_ in there),
            saved_s=sum(hits * cost_s for hits, cost_s, *_ in there),
        )

    async def _catch_up(self, scope: str, local: _Local) -> None:
        """Reads the vectors of entries that other replicas have added since."""
        newest = int(await self._do(self._redis.get(self._key("n", scope))) or 0)
        if newest == local.seen:
            return
        if newest < local.seen:
            local.vectors, local.seen = ScopeVectors(self._dimensions), 0
        added = await self._do(
            self._redis.zrangebyscore(self._key("s", scope), f"({local.seen}", "+inf", withscores=True)
        )
        fresh = [raw.decode() for raw, _ in added if raw.decode() not in local.vectors]
        for entry in await self.get(fresh):
            if len(entry.vector) == self._dimensions:
                local.vectors.add(entry.id, entry.vector)
        if local.vectors.crowded:
            local.vectors.adopt(await asyncio.to_thread(graph_of, *local.vectors.snapshot()))
        local.seen = max([local.seen, *(int(number) for _, number in added)])

    def _scope(self, scope: str) -> _Local:
        local = self._local.get(scope)
        if local is None:
            local = self._local[scope] = _Local(ScopeVectors(self._dimensions))
            if len(self._local) > _SCOPES:
                self._local.popitem(last=False)
        self._local.move_to_end(scope)
        return local

    def _forget(self, entry_ids: Iterable[str]) -> None:
        """Entries that expired or were evicted."""
        for entry_id in entry_ids:
            for local in self._local.values():
                local.vectors.remove(entry_id)

    async def _chosen(self, tenant: str, which: Purge) -> set[str]:
        members = self._redis.smembers
        ids = {raw.decode() for raw in await self._do(members(self._key("t", tenant)))}
        if which.entry_id is not None:
            ids &= {which.entry_id}
        if which.tag is not None:
            ids &= {raw.decode() for raw in await self._do(members(self._key("g", tenant, which.tag)))}
        if which.document_id is not None:
            citing: set[str] = set()
            if which.collection is not None:
                keys = [self._key("d", tenant, which.document_id, which.collection).encode()]
            else:
                pattern = self._key("d", tenant, which.document_id, "") + "*"
                keys = [key async for key in self._redis.scan_iter(pattern, count=1_000)]
            for key in keys:
                citing |= {raw.decode() for raw in await self._do(members(key))}
            ids &= citing
        return ids

    async def _delete(self, tenant: str, entry_ids: Sequence[str]) -> int:
        gone = await self.get(entry_ids)
        commands: list[tuple[Any, ...]] = []
        for entry in gone:
            commands += [
                ("delete", self._key("e", entry.id)),
                ("zrem", self._key("s", entry.scope), entry.id),
                ("srem", self._key("t", tenant), entry.id),
                ("delete", self._exact_key(entry.scope, entry.text)),
            ]
        await self._pipelined(commands)
        self._forget(entry.id for entry in gone)
        return len(gone)

    def _exact_key(self, scope: str, text: str) -> str:
        return self._key("x", scope, digest(text))

    def _key(self, kind: str, *names: str) -> str:
        """Names are user text: each goes in as a digest, unless it is one of ours already."""
        if kind in {"t", "g", "d", "feedback"}:
            names = tuple(digest(name) if name else "" for name in names)
        return ":".join((f"{self._prefix}{kind}", *names))

    async def _pipelined(self, commands: Iterable[tuple[Any, ...]]) -> list[Any]:
        pipeline = self._redis.pipeline(transaction=False)
        for name, *arguments in commands:
            getattr(pipeline, name)(*arguments)
        return list(await self._do(pipeline.execute())) if len(pipeline) else []

    async def _do(self, awaitable: Awaitable[T]) -> T:
        try:
            return await awaitable
        except (RedisError, OSError) as error:
            raise Unavailable(f"Redis, which holds the answer cache, cannot be reached: {error}.") from None


_HIT = "if redis.call('EXISTS', KEYS[1]) == 1 then return redis.call('HINCRBY', KEYS[1], 'hits', 1) end"
"""Only of an entry that is still there: a bare counter would be an entry without data."""
