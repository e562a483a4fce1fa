"""What the README tells a reader to type works: its commands, its Python and its JSON."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio.to_thread
import httpx
import pytest

from slipstream.bench.process import FAKE_MODELS, Running, slipstream_server

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
COMMANDS = {
    *("demo", "serve", "ingest", "migrate", "ask", "search"),
    *("models", "index", "cache", "prove", "bench", "doctor"),
}
ADDRESS = "http://127.0.0.1:8321"

pytestmark = pytest.mark.anyio


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    environment = {**FAKE_MODELS, "SLIPSTREAM_DATA__STORE": "qdrant-edge"}
    async with slipstream_server(tmp_path, environment) as running:
        async with httpx.AsyncClient(base_url=running.base, trust_env=False) as http:
            text = "Every employee has 28 days of leave a year."
            for tenant, collection in (("default", "default"), ("acme", "policies")):
                body = {"id": "leave.md", "text": text, "tenant": tenant, "collection": collection}
                assert (await http.post("/v1/documents", json=body)).is_success
        yield running


def test_make_targets_exist() -> None:
    named = set(re.findall(r"\bmake ([a-z-]+)", README))
    assert {"demo", "test"} <= named
    for target in named:
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target


def test_commands_exist() -> None:
    named = set(re.findall(r"\bslipstream ([a-z]+)", "\n".join(blocks("sh")) + README))
    for command in named & COMMANDS:
        done = subprocess.run(
            [sys.executable, "-m", "slipstream.cli", command, "--help"], capture_output=True, text=True, check=True
        )
        assert "Usage" in done.stdout
    assert named <= COMMANDS


async def test_the_openai_client_example(server: Running) -> None:
    [example] = blocks("python")
    code = example.replace(ADDRESS, server.base)
    assert server.base in code
    out = io.StringIO()

    def run() -> None:
        with contextlib.redirect_stdout(out):
            exec(compile(code, "README.md", "exec"), {})

    await anyio.to_thread.run_sync(run)
    assert "28 days" in out.getvalue()


async def test_the_curl_example(server: Running) -> None:
    [body] = re.findall(r"-d '(\{.*?\})'\n", README, re.DOTALL)
    async with httpx.AsyncClient(base_url=server.base, trust_env=False, timeout=60) as http:
        sent = json.loads(body)
        sent["slipstream"]["filters"] = {"type": "markdown"}
        response = await http.post("/v1/chat/completions", json=sent)
    assert response.status_code == 200
    assert "28 days" in response.json()["choices"][0]["message"]["content"]


def test_linked_files_exist() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
