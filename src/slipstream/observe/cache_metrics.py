"""Metrics of the answer cache: hits by level, rejections by check, what is stored and what was saved."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from slipstream.types import CacheDecision

_AGES_S = (1, 10, 60, 600, 3_600, 21_600, 86_400, 604_800)


class CacheMetrics:
    """One observation costs microseconds."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._requests = Counter(
            "slipstream_cache_requests", "Questions by what the cache did.", ("status", "level"), registry=registry
        )
        self._rejections = Counter(
            "slipstream_cache_rejections", "Stored answers refused, by the check.", ("check",), registry=registry
        )
        self._saved_s = Counter(
            "slipstream_cache_saved_seconds", "What writing the answers served had taken.", registry=registry
        )
        self._age_s = Histogram(
            "slipstream_cache_age_seconds", "Age of answers served.", buckets=_AGES_S, registry=registry
        )
        self._failures = Counter(
            "slipstream_cache_failures", "Looking up or storing failed.", ("doing",), registry=registry
        )
        self._feedback = Counter("slipstream_feedback", "What readers said.", ("rating",), registry=registry)

    def decided(self, decision: CacheDecision, saved_s: float = 0.0) -> None:
        self._requests.labels(decision.status, decision.level or "none").inc()
        for verdict in decision.verdicts:
            if not verdict.passed:
                self._rejections.labels(verdict.check).inc()
        if decision.status == "hit":
            self._saved_s.inc(saved_s)
            self._age_s.observe(decision.age_s or 0.0)

    def failed(self, doing: str) -> None:
        self._failures.labels(doing).inc()

    def said(self, rating: str) -> None:
        self._feedback.labels(rating).inc()

    def watch(self, held_bytes: Callable[[], float], held: Callable[[], float]) -> None:
        """Of answers held ready in memory."""
        Gauge("slipstream_cache_recent_bytes", "Answers held ready.", registry=self._registry).set_function(held_bytes)
        Gauge("slipstream_cache_recent_answers", "Answers held ready.", registry=self._registry).set_function(held)
