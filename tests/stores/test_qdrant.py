"""The Qdrant store keeps the contract of every store, over its real wire."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from contracts.store_contract import *  # noqa: F403  every promise is a test of this module
from contracts.store_contract import DIMENSIONS
from stores.qdrant_server import QdrantDouble

from slipstream.settings import QdrantSettings
from slipstream.stores.base import Store
from slipstream.stores.qdrant import QdrantStore


@pytest.fixture
async def double() -> AsyncIterator[QdrantDouble]:
    double = QdrantDouble()
    await double.start()
    yield double
    await double.close()


@pytest.fixture
async def store(double: QdrantDouble) -> AsyncIterator[Store]:
    store = QdrantStore(QdrantSettings(url=double.url), dimensions=DIMENSIONS, encoder="test")
    await store.open()
    yield store
    await store.close()
