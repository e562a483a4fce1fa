"""What a tier's servers take: seconds to the first token and per token, as seen lately."""

from __future__ import annotations

from slipstream.call import Deadline

_WEIGHT = 0.1
_LEAST_TOKENS = 16
_USABLE = 0.8
"""Share of the time left that is planned with: the next answer may be slower than the last ones."""


class Pace:
    """Exponentially weighted means; nothing is known before the first answer."""

    def __init__(self) -> None:
        self.first_token_s = 0.0
        self.token_s = 0.0

    def learn(self, first_token_s: float, rest_s: float, tokens: int) -> None:
        """One finished answer: `tokens` in all, the last of them `rest_s` after the first."""
        self.first_token_s = _mean(self.first_token_s, first_token_s)
        if tokens > _LEAST_TOKENS:
            self.token_s = _mean(self.token_s, rest_s / (tokens - 1))

    def affordable(self, deadline: Deadline) -> int | None:
        """Tokens that the rest of the deadline has time for; None when that is no bound.

        An answer that ends at its length is worth more than the same one ended by its deadline.
        """
        remaining_s = deadline.remaining_s()
        if not self.token_s or remaining_s == float("inf"):
            return None
        return max(_LEAST_TOKENS, int(_USABLE * (remaining_s - self.first_token_s) / self.token_s))


def _mean(before: float, now: float) -> float:
    return now if not before else before + _WEIGHT * (now - before)
