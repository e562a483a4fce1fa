"""An instant, deterministic cross-encoder without weights: the share of the query's terms that a passage holds."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.text.terms import terms

_LENGTH_WEIGHT = 1e-4
"""Of two passages with the same terms the shorter one is better, a little."""


class FakeCrossEncoder:
    """Implements models.base.CrossEncoder."""

    name = "fake"

    async def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [_score(query, passage) for query, passage in pairs]

    async def warm_up(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to free."""


def _score(query: str, passage: str) -> float:
    wanted, held = set(terms(query)), set(terms(passage))
    share = len(wanted & held) / max(1, len(wanted))
    return share / (1.0 + _LENGTH_WEIGHT * len(passage))
