"""The best candidates → scores of a cross-encoder, which may be late or down: then nothing changes but the order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from slipstream.answer.score_cache import ScoreCache
from slipstream.call import Call
from slipstream.errors import InvalidRequest, SlipstreamError, TryAgain
from slipstream.runtime.circuit import Circuit
from slipstream.types import Passage

log = logging.getLogger(__name__)

ScorePairs: TypeAlias = Callable[[Sequence[tuple[str, str]]], Awaitable[Sequence[float]]]
"""(query, passage) pairs of one caller → relevance, in order; what gathers the pairs of many callers is behind it."""

DROPPED = "cross_encoder"
"""What `degraded` says when an answer goes without it."""
_SHARE_OF_REST = 0.5
"""Of the time that a call has left: the model has to answer, too."""


class CrossEncode:
    """Waits so long and no longer, asks nobody who keeps failing, and remembers what was scored."""

    def __init__(self, model: str, score: ScorePairs, timeout_s: float, cached: int, circuit: Circuit | None = None):
        self._score = score
        self._timeout_s = timeout_s
        self._cache = ScoreCache(model, cached)
        self._circuit = circuit or Circuit()

    async def __call__(self, query: str, passages: Sequence[Passage], call: Call) -> Mapping[str, float] | None:
        """Scores by passage id, or None when the answer has to go without them; the call says so then."""
        known = self._cache.found(query, [passage.id for passage in passages])
        wanted = [passage for passage in passages if passage.id not in known]
        if not wanted:
            call.mark("cross_encoder", cached=len(known))
            return known
        if not self._circuit.allows():
            call.degrade(DROPPED)
            return None
        with call.stage("cross_encoder", candidates=len(wanted)) as span:
            if known:
                span.detail["cached"] = len(known)
            scores = await self._scored(query, wanted, call)
        if scores is None:
            span.detail["failed"] = True
            call.degrade(DROPPED)
            return None
        self._cache.keep(query, scores)
        return {**known, **scores}

    async def _scored(self, query: str, passages: Sequence[Passage], call: Call) -> Mapping[str, float] | None:
        timeout_s = min(self._timeout_s, _SHARE_OF_REST * max(0.0, call.deadline.remaining_s()))
        try:
            async with asyncio.timeout(timeout_s):
                scores = await self._score([(query, passage.text) for passage in passages])
        except asyncio.CancelledError:
            self._circuit.abandoned()
            raise
        except TimeoutError:
            self._circuit.failed()
            log.warning("The cross-encoder did not score %d passages in %.1f s.", len(passages), timeout_s)
            return None
        except InvalidRequest as error:  # the query's own fault: the part is well
            self._circuit.succeeded()
            log.info("The cross-encoder refused a query. %s", error)
            return None
        except SlipstreamError as error:
            self._circuit.failed()
            log.warning(
                "The answer goes without the cross-encoder. %s", error, exc_info=not isinstance(error, TryAgain)
            )
            return None
        self._circuit.succeeded()
        return {passage.id: score for passage, score in zip(passages, scores, strict=True)}
