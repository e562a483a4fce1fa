"""`slipstream doctor` says what is wrong with a remote engine."""

from __future__ import annotations

import asyncio

import pytest
from models.remote.fault_server import fault_server

from slipstream.doctor.check import Check
from slipstream.doctor.engines import check_engines
from slipstream.settings import EnginesSettings, ModelsSettings, RemoteEngineSettings, Settings

pytestmark = pytest.mark.anyio


async def checks(url: str, model: str = "") -> list[Check]:
    engine = RemoteEngineSettings(base_urls=(url,), model=model)
    settings = Settings(models=ModelsSettings(small="fake"), engines=EnginesSettings(large=engine))
    return await asyncio.to_thread(lambda: list(check_engines(settings)))


async def test_an_engine_that_serves_the_model() -> None:
    async with fault_server() as server:
        [check] = await checks(server.url, "fake")
    assert (check.state, check.name) == ("ok", "large engine")


async def test_what_is_wrong_is_said() -> None:
    async with fault_server() as server:
        url = server.url
        [other] = await checks(url, "other")
    [gone] = await checks(url)
    assert other.state == gone.state == "fail"
    assert "fake" in other.advice
    assert "does not answer" in gone.sentence
