"""Thresholds measured for the encoders we ship; `slipstream cache calibrate` measures others."""

from __future__ import annotations

from collections.abc import Mapping

from slipstream.cache.verify import Thresholds
from slipstream.types import Language

_BY_ENCODER: Mapping[str, Mapping[Language, Thresholds]] = {
    "multilingual-e5-small": {
        "en": Thresholds(both_ways=0.93, weakest=0.80, alone_both_ways=0.93, alone_weakest=0.76),
        "zh": Thresholds(both_ways=0.95, weakest=0.90, alone_both_ways=0.99, alone_weakest=0.97),
    },
    "fake": {
        "en": Thresholds(both_ways=0.3, weakest=-1.0),
        "zh": Thresholds(both_ways=0.3, weakest=-1.0),
    },
}
"""On the shipped paraphrases, hard negatives and PAWS-X, the halves for tuning: see `prove S2` for the others."""


def calibrated(encoder: str) -> Mapping[Language, Thresholds]:
    """Empty for an encoder that nobody has calibrated: then only the same words are served."""
    return _BY_ENCODER.get(encoder, {})
