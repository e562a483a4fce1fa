"""Texts that came with a request, scored against its query: by the cross-encoder, or else by late interaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TypeAlias

from slipstream.answer.cross_encode import DROPPED, ScorePairs
from slipstream.answer.late_interaction import late_scores
from slipstream.answer.retrieve import EncodeQuery
from slipstream.call import Call
from slipstream.errors import Bug, NotFound, SlipstreamError, TryAgain
from slipstream.models.base import Encoder
from slipstream.runtime.workers import Worker
from slipstream.types import Scorer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Lot:
    """Texts that are scored under one permit, so that others get in between."""

    texts: Sequence[str]
    tokens: int
    """Estimated."""


@dataclass(frozen=True, slots=True)
class RankedTexts:
    model: str
    scorer: Scorer
    scores: Sequence[float]
    """In the order of the texts; comparable within one answer only."""
    tokens: int
    """Estimated tokens that were read."""


Admit: TypeAlias = Callable[[int], AbstractAsyncContextManager[object]]
"""Estimated tokens → a permit to compute them."""


class TextRanker:
    def __init__(
        self,
        encoder: Encoder,
        encode_query: EncodeQuery,
        worker: Worker,
        cross_encoder: str | None = None,
        score_pairs: ScorePairs | None = None,
    ) -> None:
        self._encoder = encoder
        self._encode_query = encode_query
        self._worker = worker
        self._cross_encoder = cross_encoder
        self._score_pairs = score_pairs

    @property
    def models(self) -> tuple[str, ...]:
        """The names that may be asked for, the default first."""
        return (self._encoder.name,) if self._cross_encoder is None else (self._cross_encoder, self._encoder.name)

    async def __call__(
        self, query: str, lots: Sequence[Lot], model: str | None, admit: Admit, call: Call
    ) -> RankedTexts:
        """`model` None takes the cross-encoder when there is one, and does without when that fails.

        Raises NotFound for a model that is not here, and what the model asked for raises.
        """
        if model is not None and model not in self.models:
            names = ", ".join(self.models)
            raise NotFound(f'"{model}" ranks nothing here; there is {names}.', code="model_not_found", param="model")
        if self._score_pairs is None or self._cross_encoder is None or model == self._encoder.name:
            return await self._late(query, lots, admit, call)
        try:
            return await self._crossed(self._cross_encoder, self._score_pairs, query, lots, admit, call)
        except (TryAgain, Bug) as error:
            if model is not None:
                raise
            _log_failure(error)
        call.degrade(DROPPED)
        return await self._late(query, lots, admit, call)

    async def _crossed(
        self, name: str, score: ScorePairs, query: str, lots: Sequence[Lot], admit: Admit, call: Call
    ) -> RankedTexts:
        scores: list[float] = []
        with call.stage("cross_encoder", candidates=sum(len(lot.texts) for lot in lots)):
            for lot in lots:
                async with admit(lot.tokens):
                    scores += await score([(query, text) for text in lot.texts])
        return RankedTexts(name, "cross_encoder", scores, _tokens(lots))

    async def _late(self, query: str, lots: Sequence[Lot], admit: Admit, call: Call) -> RankedTexts:
        scores: list[float] = []
        with call.stage("encode"):
            encoded = await self._encode_query(query)
        with call.stage("late_interaction", candidates=sum(len(lot.texts) for lot in lots)):
            for lot in lots:
                async with admit(lot.tokens):
                    passages = await self._encoder.encode(lot.texts, "passage")
                    scores += await self._worker.run(late_scores, encoded.tokens, [p.tokens for p in passages])
        return RankedTexts(self._encoder.name, "maxsim", scores, _tokens(lots))


def _tokens(lots: Sequence[Lot]) -> int:
    return sum(lot.tokens for lot in lots)


def _log_failure(error: SlipstreamError) -> None:
    log.warning("Texts are ranked without the cross-encoder. %s", error, exc_info=isinstance(error, Bug))
