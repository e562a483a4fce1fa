"""The remote model over a real vLLM server on this machine's CPU; how to set it up is in docs/engines.md."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest
from models.remote.fault_server import fault_server

from slipstream.call import Call, Deadline
from slipstream.errors import InvalidRequest, Unavailable
from slipstream.models.llm_http import RemoteLanguageModel
from slipstream.settings import RemoteEngineSettings
from slipstream.types import Message, Sampling, Token

PYTHON = os.environ.get("SLIPSTREAM_VLLM_PYTHON", "")
MODEL = os.environ.get("SLIPSTREAM_VLLM_MODEL", "")
NAME = "fake"
"""The stand-in that takes over when vLLM is killed serves a model of the same name."""

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.heavy,
    pytest.mark.skipif(not (PYTHON and MODEL), reason="set SLIPSTREAM_VLLM_PYTHON and SLIPSTREAM_VLLM_MODEL"),
]

_FLAGS = ("--enable-prompt-tokens-details", "--enable-server-load-tracking", "--enforce-eager")

PASSAGE = "The pool keeps ten connections open. It grows on demand, and closes idle ones after a minute. " * 12
MESSAGES = (Message("system", "You answer from the passages."), Message("user", f"{PASSAGE}\n\nHow many connections?"))


@dataclass(frozen=True)
class Vllm:
    process: asyncio.subprocess.Process
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def running(self) -> int:
        """Requests that it works on, by its own count, from their arrival to their end."""
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            return int((await http.get(f"http://127.0.0.1:{self.port}/load")).json()["server_load"])

    async def kill(self) -> None:
        """All its processes at once, as a lost machine."""
        if self.process.returncode is None:
            server = psutil.Process(self.process.pid)
            for process in (server, *server.children(recursive=True)):
                process.kill()
            await self.process.wait()


@asynccontextmanager
async def vllm(log: Path) -> AsyncIterator[Vllm]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    arguments = ["-m", "vllm.entrypoints.openai.api_server", "--model", MODEL, "--served-model-name", NAME]
    options = ["--dtype", "float32", "--max-model-len", "2048", "--port", str(port), "--host", "127.0.0.1"]
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(PYTHON, *arguments, *options, *_FLAGS),
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        server = Vllm(process, port)
        try:
            yield server
        finally:
            await server.kill()


@asynccontextmanager
async def over(*urls: str) -> AsyncIterator[RemoteLanguageModel]:
    model = RemoteLanguageModel(RemoteEngineSettings(base_urls=urls, first_token_s=120, start_s=1_200))
    try:
        await model.warm_up([MESSAGES[:1]])
        yield model
    finally:
        await model.close()


async def answer(model: RemoteLanguageModel, sampling: Sampling) -> list[Token]:
    async with model.generate(MESSAGES, sampling, Call("tenant", Deadline.after(120))) as stream:
        return [token async for tokens in stream for token in tokens]


async def test_a_real_server_from_its_start_to_its_death(tmp_path: Path) -> None:
    async with vllm(tmp_path / "vllm.log") as server, over(server.url) as model:
        assert (model.name, model.context_tokens) == (NAME, 2_048)
        assert model._said is not None
        assert model._said.kind.name == "vllm"
        await counts_and_usage_agree(model)
        await a_schema_is_kept(model)
        await what_does_not_fit_is_refused(model)
        await leaving_frees_the_engine(model, server)
        await killed_within_an_answer(model, server)


async def counts_and_usage_agree(model: RemoteLanguageModel) -> None:
    estimated = model.count_tokens(MESSAGES)
    first = await answer(model, Sampling(max_tokens=24))
    again = await answer(model, Sampling(max_tokens=24))
    usage = first[-1].usage
    assert usage is not None
    assert usage.prompt_tokens <= estimated <= 1.5 * usage.prompt_tokens
    assert model.count_tokens(MESSAGES) == usage.prompt_tokens
    assert usage.completion_tokens == sum(token.count for token in first) > 0
    assert again[-1].usage is not None
    assert again[-1].usage.cached_tokens > 0.8 * usage.prompt_tokens


async def a_schema_is_kept(model: RemoteLanguageModel) -> None:
    schema: dict[str, object] = {"type": "object", "properties": {"connections": {"type": "integer", "maximum": 99}}}
    schema |= {"required": ["connections"], "additionalProperties": False}
    tokens = await answer(model, Sampling(max_tokens=96, json_schema=json.dumps(schema)))
    assert isinstance(json.loads("".join(token.text for token in tokens))["connections"], int)


async def what_does_not_fit_is_refused(model: RemoteLanguageModel) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await answer(model, Sampling(max_tokens=2_000))
    assert caught.value.code == "context_length_exceeded"


async def leaving_frees_the_engine(model: RemoteLanguageModel, server: Vllm) -> None:
    async with model.generate(MESSAGES, Sampling(max_tokens=1_500), Call("t", Deadline.after(120))) as stream:
        await anext(stream)
        assert await server.running() == 1
    async with asyncio.timeout(20):
        while await server.running():  # noqa: ASYNC110 (another process is polled)
            await asyncio.sleep(0.1)


async def killed_within_an_answer(model: RemoteLanguageModel, server: Vllm) -> None:
    got: list[Token] = []
    with pytest.raises(Unavailable):
        await read_and_kill(model, server, got)
    assert len(got) >= 3
    assert all(token.finish_reason is None for token in got)


async def read_and_kill(model: RemoteLanguageModel, server: Vllm, got: list[Token]) -> None:
    async with model.generate(MESSAGES, Sampling(max_tokens=1_500), Call("t", Deadline.after(120))) as stream:
        async for tokens in stream:
            got += tokens
            if len(got) >= 3:
                await server.kill()


async def test_a_real_server_killed_before_the_first_token(tmp_path: Path) -> None:
    async with vllm(tmp_path / "vllm.log") as server, fault_server() as stand_in, over(server.url) as alone:
        long = (MESSAGES[0], Message("user", " ".join(f"{number} connections" for number in range(400))))
        model = RemoteLanguageModel(RemoteEngineSettings(base_urls=(server.url, stand_in.url)))
        try:
            await model.warm_up()
            stand_in.requests.clear()
            model.replicas[1].in_flight += 2  # so that the real one is chosen
            task = asyncio.create_task(read(model, long))
            async with asyncio.timeout(60):
                while not (task.done() or await server.running()):  # noqa: ASYNC110 (another process is polled)
                    await asyncio.sleep(0.01)
            await server.kill()
            tokens = await task
        finally:
            await model.close()
        assert alone.name == NAME
    assert len(stand_in.requests) == 1
    assert tokens[-1].finish_reason is not None
    assert "".join(token.text for token in tokens)


async def read(model: RemoteLanguageModel, messages: tuple[Message, ...]) -> list[Token]:
    async with model.generate(messages, Sampling(max_tokens=8), Call("t", Deadline.after(120))) as stream:
        return [token async for tokens in stream for token in tokens]
