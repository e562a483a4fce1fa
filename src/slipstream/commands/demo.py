"""`slipstream demo`: the whole product on a shipped bilingual corpus, in one go."""

from __future__ import annotations

import asyncio
import time

import httpx
from rich.console import Console
from rich.rule import Rule
from rich.table import Table

from slipstream.bench.claims import percentile
from slipstream.commands import client
from slipstream.commands.ask import http_client
from slipstream.commands.ingest import show_report
from slipstream.commands.local import local_server
from slipstream.commands.terminal import AnswerView
from slipstream.demo.questions import CORPUS
from slipstream.ingest.progress import IngestProgress
from slipstream.models.catalogue import BILINGUAL
from slipstream.models.provision import Provisioner
from slipstream.service import Slipstream
from slipstream.settings import ModelsSettings, Settings, load_settings

TENANT, COLLECTION = "demo", "fastapi-docs"
ENGLISH = (
    "Which command starts the FastAPI application in development mode?",
    "What is a path operation decorator?",
    "How can I run several worker processes?",
)
CHINESE = "如何声明一个可选的查询参数？"
CROWD = (
    "How do I declare a request body?",
    "What does the async keyword do in a path operation function?",
    "How do I add a dependency to a path operation?",
    "How do I deploy with Docker?",
    "如何处理表单数据？",
    "怎样设置响应状态码？",
    "How can I validate a query parameter's length?",
    "What is OAuth2 with password flow?",
)
_OPTIONS = {"tenant": TENANT, "collections": [COLLECTION]}


def demo_settings(base: Settings | None = None) -> Settings:
    """The user's settings with a data directory of the demo's own; the bilingual model if it has been pulled."""
    base = base or load_settings()
    data = base.data.model_copy(update={"dir": base.data.dir / "demo"})
    return base.model_copy(update={"data": data, "models": _with_bilingual(base.models)})


def _with_bilingual(models: ModelsSettings) -> ModelsSettings:
    if models.large is not None:
        return models
    ready = {status.name for status in Provisioner(models.cache_dir).list() if status.state == "ready"}
    return models.model_copy(update={"large": BILINGUAL}) if BILINGUAL in ready else models


async def run_demo(console: Console, *, ask_questions: bool, users: int) -> None:
    began = time.perf_counter()
    settings = demo_settings()
    console.print(Rule("Slipstream demo: documents in, cited answers out, on this machine alone"))
    async with local_server(settings, console) as local, http_client(local.base, settings) as http:
        await ingest_corpus(local.service, console)
        if ask_questions:
            await _ask_all(http, settings, console, began)
        if users:
            await _crowd(http, users, console)
    _what_next(console, settings)


async def ingest_corpus(service: Slipstream, console: Console) -> None:
    """Indexes the shipped corpus; a second time nothing changes."""
    with IngestProgress(console) as progress:
        report = await service.parts.ingestor.ingest_paths(
            [CORPUS], tenant=TENANT, collection=COLLECTION, on_event=progress
        )
    show_report(report, console)


async def _ask_all(http: httpx.AsyncClient, settings: Settings, console: Console, began: float) -> None:
    first = True
    for question in (*ENGLISH, CHINESE):
        view = AnswerView(console)
        view.question(question)
        if question == CHINESE and settings.models.large is None:
            console.print("  [dim]The small model speaks no Chinese, so the evidence is quoted instead.[/]")
        reply = await client.ask(http, question, options=_OPTIONS, on_evidence=view.evidence, on_text=view.text)
        view.end(reply.final, reply.total_s)
        if first:
            first = False
            at = time.perf_counter() - reply.total_s + (reply.first_token_s or 0.0) - began
            console.print(f"  [dim]first token {at:.1f} s after the command began[/]")


async def _crowd(http: httpx.AsyncClient, users: int, console: Console) -> None:
    console.print()
    console.print(Rule(f"{users} users at once"))
    questions = [CROWD[i % len(CROWD)] for i in range(users)]
    with console.status(f"{users} questions, streaming …"):
        replies = await asyncio.gather(*(client.ask(http, question, options=_OPTIONS) for question in questions))
    table = Table(box=None, padding=(0, 2))
    for title in ("", "p50", "p95"):
        table.add_column(title, justify="right" if title else "left")
    rows = (
        ("evidence on screen", [r.evidence_s or r.total_s for r in replies]),
        ("first token", [r.first_token_s or r.total_s for r in replies]),
        ("whole answer", [r.total_s for r in replies]),
    )
    for name, seconds in rows:
        table.add_row(name, f"{1e3 * percentile(seconds, 50):.0f} ms", f"{1e3 * percentile(seconds, 95):.0f} ms")
    console.print(table)


def _what_next(console: Console, settings: Settings) -> None:
    console.print()
    console.print(Rule("What to try next"))
    lines = [
        ("slipstream ingest ./your-documents", "index your own files"),
        ('slipstream ask "…"', "ask them, with evidence and a waterfall"),
        ("slipstream serve", "an OpenAI-compatible server on http://127.0.0.1:8321/v1"),
        ("slipstream prove", "measure every claim on this machine"),
    ]
    if settings.models.large is None:
        pull = "slipstream models pull qwen2.5-coder-1.5b-instruct"
        lines.append((pull, "a bilingual model (1.1 GB); the demo then answers in Chinese too"))
    for command, what in lines:
        console.print(f"  [bold]{command}[/]  [dim]{what}[/]", highlight=False)
