"""The embedded store keeps the contract of every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from contracts.store_contract import *  # noqa: F403  every promise is a test of this module
from contracts.store_contract import DIMENSIONS

from slipstream.stores.base import Store
from slipstream.stores.qdrant_edge import QdrantEdgeStore


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = QdrantEdgeStore(tmp_path / "passages", dimensions=DIMENSIONS, encoder="test", rebuild_after=1)
    await store.open()
    yield store
    await store.close()
