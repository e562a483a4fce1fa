"""The claim about killed engines, over real processes."""

from __future__ import annotations

import pytest

from slipstream.bench import failover_claim
from slipstream.settings import Settings

pytestmark = pytest.mark.anyio


async def test_what_clients_see_of_killed_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failover_claim, "REPEATS", 1)
    finding = await failover_claim.measure(Settings(), lambda _: None)
    assert finding.holds, finding.bars
    assert [len(side.samples) for side in finding.sides] == [1, 1, 1]
