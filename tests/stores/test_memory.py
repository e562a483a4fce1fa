"""The reference store keeps the contract it is the reference for."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from contracts.store_contract import *  # noqa: F403  every promise is a test of this module
from contracts.store_contract import DIMENSIONS

from slipstream.stores.base import Store
from slipstream.stores.memory import MemoryStore


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = MemoryStore(dimensions=DIMENSIONS)
    await store.open()
    yield store
    await store.close()
