"""`slipstream ingest --server`: which files go, what happens while the server is busy, what is reported."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from slipstream.call import Call
from slipstream.commands.ingest import run_ingest
from slipstream.commands.upload import upload
from slipstream.errors import ConfigError, Overloaded
from slipstream.ingest.report import IngestEvent, IngestReport
from slipstream.server.app import create_app
from slipstream.server.fake import ScriptedService
from slipstream.settings import Settings

pytestmark = pytest.mark.anyio


class Busy(ScriptedService):
    """Refuses so many uploads before it takes one."""

    def __init__(self, refusals: int = 0) -> None:
        super().__init__(Settings())
        self.refusals = refusals
        self.readiness.warmed()

    @asynccontextmanager
    async def upload(self, call: Call, size_bytes: int) -> AsyncIterator[None]:
        if self.refusals:
            self.refusals -= 1
            raise Overloaded("Busy.", retry_after_s=7)
        async with super().upload(call, size_bytes):
            yield


class Sending:
    def __init__(self, refusals: int = 0) -> None:
        self.service = Busy(refusals)
        self.waits: list[float] = []
        self.told: list[IngestEvent] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def __call__(self, *paths: Path) -> IngestReport:
        transport = httpx.ASGITransport(create_app(self.service))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return await upload(
                http,
                paths,
                tenant="acme",
                collection="c",
                max_bytes=100,
                on_event=self.told.append,
                sleep=self.sleep,
            )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    (root / ".git").mkdir(parents=True)
    (root / "sub").mkdir()
    (root / ".git" / "config").write_text("secret")
    (root / ".env").write_text("secret")
    (root / "a.md").write_text("a")
    (root / "sub" / '文 "档".md').write_text("b")
    (root / "big.md").write_bytes(bytes(101))
    return root


async def test_hidden_files_stay_here_and_ids_are_those_of_an_ingestion_here(folder: Path) -> None:
    send = Sending()
    report = await send(folder)
    assert sorted(send.service.documents) == [("acme", "c", "a.md"), ("acme", "c", 'sub/文 "档".md')]
    assert report.added == ("a.md", 'sub/文 "档".md')
    assert [(problem.code, problem.name) for problem in report.skipped] == [
        ("hidden", ".env"),
        ("hidden", ".git"),
        ("too_large", "big.md"),
    ]
    assert (send.told[0].kind, send.told[0].files_total, send.told[-1].files_done) == ("started", 2, 2)
    assert (await send(folder)).unchanged == report.added


async def test_a_busy_server_is_asked_again_when_it_says_so(folder: Path) -> None:
    send = Sending(refusals=2)
    report = await send(folder / "a.md")
    assert (report.added, send.waits) == (("a.md",), [7.0, 7.0])


async def test_a_server_that_stays_busy_fails_the_file_with_its_words(folder: Path) -> None:
    send = Sending(refusals=100)
    report = await send(folder / "a.md")
    assert [(problem.name, problem.reason) for problem in report.failed] == [("a.md", "Busy.")]
    assert len(send.waits) == 5


async def test_a_file_the_server_refuses_is_reported_and_the_rest_goes_on(folder: Path) -> None:
    (folder / "empty.md").write_text(" ")
    report = await Sending()(folder)
    assert [(problem.name, problem.code) for problem in report.failed] == [("empty.md", "unusable_data")]
    assert len(report.added) == 2


async def test_prune_is_refused_with_a_server(folder: Path) -> None:
    with pytest.raises(ConfigError, match="--prune"):
        await run_ingest(
            Settings(),
            [folder],
            tenant="acme",
            collection="c",
            prune=True,
            server="http://127.0.0.1:9",
            console=Console(quiet=True),
            as_json=False,
        )
