"""The command line: what each command takes; the work is done elsewhere, and imported only when it is needed."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from slipstream.errors import SlipstreamError
from slipstream.models_cli import app as models_app

if TYPE_CHECKING:
    from slipstream.settings import Settings

app = typer.Typer(
    name="slipstream",
    help="A RAG agent server for many users at once, built so that nobody waits.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
bench_app = typer.Typer(help="Measure speed and quality on this machine.", no_args_is_help=True)
app.add_typer(models_app, name="models")
app.add_typer(bench_app, name="bench")
index_app = typer.Typer(help="How vectors are indexed and searched.", no_args_is_help=True)
app.add_typer(index_app, name="index")
cache_app = typer.Typer(help="The answer cache.", no_args_is_help=True)
app.add_typer(cache_app, name="cache")

Config = Annotated[Path | None, typer.Option("--config", help="Settings file; default `slipstream.toml` here.")]
Tenant = Annotated[str, typer.Option(help="Whose documents.")]
Collection = Annotated[str, typer.Option(help="A named set of documents within the tenant.")]
Server = Annotated[str | None, typer.Option("--server", help="A running server, such as http://127.0.0.1:8321.")]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]

_errors = Console(stderr=True)


def main() -> None:
    """Entry point: errors come out as one sentence and exit status 1, never as a traceback."""
    try:
        app()
    except SlipstreamError as error:
        _errors.print(f"[bold red]error[/] ({error.code}): ", end="")
        _errors.print(error.message, markup=False, highlight=False)
        sys.exit(1)
    except KeyboardInterrupt:
        _errors.print("\nStopped.")
        sys.exit(130)


def _settings(config: Path | None) -> Settings:
    from slipstream.settings import load_settings

    return load_settings(config)


@app.command(epilog="Example: `slipstream demo`")
def demo(
    questions: Annotated[bool, typer.Option(help="Ask the prepared questions.")] = True,
    users: Annotated[int, typer.Option(min=0, help="How many users at once at the end.")] = 8,
) -> None:
    """Ingest real documents, start a server, ask, stream cited answers, then serve many users at once."""
    from slipstream.commands.demo import run_demo

    asyncio.run(run_demo(Console(), ask_questions=questions, users=users))


@app.command(epilog="Example: `slipstream serve --port 8321`")
def serve(
    config: Config = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 picks a free one.")] = None,
) -> None:
    """Start the server: OpenAI-compatible chat, search and documents over HTTP."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads would spin against the encoder's and the engine's
    from slipstream.commands.serve import run_server

    run_server(_settings(config), host=host, port=port)


@app.command(epilog="Example: `slipstream ingest ./handbook --tenant acme --collection policies --prune`")
def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Files and folders.", exists=True)],
    tenant: Tenant = "default",
    collection: Collection = "default",
    prune: Annotated[bool, typer.Option(help="Remove documents whose file is gone.")] = False,
    server: Server = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Index documents: Markdown, text, HTML, PDF, DOCX. Unchanged files are skipped, edited ones replaced."""
    from slipstream.commands.ingest import run_ingest

    failed = asyncio.run(
        run_ingest(
            _settings(config),
            paths,
            tenant=tenant,
            collection=collection,
            prune=prune,
            server=server,
            console=Console(stderr=as_json),
            as_json=as_json,
        )
    )
    sys.exit(1 if failed else 0)


@app.command(epilog="Example: `slipstream migrate --from qdrant-edge --to qdrant`")
def migrate(
    source: Annotated[str, typer.Option("--from", help="Store to copy: qdrant-edge, qdrant or milvus.")],
    target: Annotated[str, typer.Option("--to", help="Store to copy to, by the settings of its own section.")],
    to_config: Annotated[
        Path | None, typer.Option("--to-config", help="Settings file of the target, when it is not the same.")
    ] = None,
    samples: Annotated[int, typer.Option(min=0, help="Searches compared between both at the end.")] = 50,
    restart: Annotated[bool, typer.Option(help="Copy everything, whatever an interrupted run has copied.")] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Copy all passages from one store to another, and compare both: counts per tenant and sampled searches.

    Killed half-way, it goes on where it was. Stop ingestion meanwhile, and a server that holds an embedded store.
    """
    from slipstream.commands.migrate import run_migrate, with_store

    whole = asyncio.run(
        run_migrate(
            with_store(_settings(config), source),
            with_store(_settings(to_config or config), target),
            Console(stderr=as_json),
            samples=samples,
            restart=restart,
            as_json=as_json,
        )
    )
    sys.exit(0 if whole else 1)


@app.command(epilog='Example: `slipstream ask "How do I deploy with Docker?"`')
def ask(
    text: Annotated[str, typer.Argument(help="The question.")],
    tenant: Tenant = "default",
    collections: Annotated[list[str] | None, typer.Option("--collection", help="Only these; repeatable.")] = None,
    route: Annotated[str | None, typer.Option(help="Insist on a tier: extractive, small or large.")] = None,
    deadline_ms: Annotated[int | None, typer.Option(min=1, help="Answer within so many milliseconds.")] = None,
    server: Server = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Ask one question and watch the evidence, the answer and where the time went.

    Uses the running server if there is one, and the data directory itself otherwise.
    """
    from slipstream.commands.ask import run_ask

    options = {"tenant": tenant, "collections": collections or [], "route": route, "deadline_ms": deadline_ms}
    options = {key: value for key, value in options.items() if value}
    asyncio.run(run_ask(_settings(config), text, options=options, server=server, console=Console(), as_json=as_json))


@app.command(epilog='Example: `slipstream search "error E1234-5" --limit 5`')
def search(
    text: Annotated[str, typer.Argument(help="What to look for.")],
    tenant: Tenant = "default",
    collections: Annotated[list[str] | None, typer.Option("--collection", help="Only these; repeatable.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="Passages shown.")] = 10,
    mode: Annotated[str | None, typer.Option(help="hybrid, dense or sparse.")] = None,
    rerank: Annotated[bool, typer.Option(help="Late interaction over the fused list.")] = True,
    expand: Annotated[str | None, typer.Option(help="Also in other words: multi, hyde or auto.")] = None,
    filters: Annotated[str | None, typer.Option("--filter", help='JSON, such as \'{"type": "pdf"}\'.')] = None,
    per_document: Annotated[int | None, typer.Option(min=1, help="Passages of one document at most.")] = None,
    server: Server = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Search and see how: each leg, the fused and the reranked order side by side, with times."""
    from slipstream.commands.search import run_search

    options = {"tenant": tenant, "collections": collections or [], "limit": limit, "mode": mode, "expand": expand}
    options |= {"filters": _json_option("--filter", filters), "per_document": per_document}
    options = {key: value for key, value in options.items() if value} | ({} if rerank else {"rerank": False})
    asyncio.run(run_search(_settings(config), text, options=options, server=server, console=Console(), as_json=as_json))


def _json_option(name: str, value: str | None) -> object:
    try:
        return json.loads(value) if value else None
    except ValueError:
        raise typer.BadParameter(f"{value} is not JSON.", param_hint=name) from None


@app.command(epilog="Example: `slipstream doctor --json`")
def doctor(config: Config = None, as_json: AsJson = False) -> None:
    """Check machine, disk, models, data and network, and say what to do about what is wrong."""
    from slipstream.doctor import render, run_doctor

    report = run_doctor(_settings(config))
    if as_json:
        typer.echo(json.dumps(report.as_json(), ensure_ascii=False, indent=2))
    else:
        render(report, Console())
    sys.exit(0 if report.ok else 1)


@app.command(epilog="Example: `slipstream prove G4 X9 --json`")
def prove(
    claims: Annotated[list[str] | None, typer.Argument(help="Claims by id; none measures all of them.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the claims and how long each takes.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also write a page with charts.")] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Measure the product's claims on this machine, both sides in one run, and say which hold."""
    import uvloop

    from slipstream.bench.prove import list_claims, run_prove

    if listed:
        list_claims(Console())
        return
    holds = uvloop.run(run_prove(_settings(config), claims or [], Console(stderr=as_json), html=html, as_json=as_json))
    sys.exit(0 if holds else 1)


@bench_app.command(epilog="Example: `slipstream bench quality --scifact scifact.zip`")
def quality(
    questions: Annotated[int, typer.Option(min=1, help="Sampled questions per set.")] = 300,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    sets: Annotated[list[str] | None, typer.Option("--set", help="Only these sets; repeatable.")] = None,
    scifact: Annotated[Path | None, typer.Option(help="Also SciFact, from its CSV export scifact.zip.")] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Retrieval quality of each leg, their fusion and late interaction, with times, on labelled sets."""
    from slipstream.bench.quality_run import run_quality

    asyncio.run(
        run_quality(
            _settings(config),
            Console(stderr=as_json),
            sets=sets,
            questions=questions,
            seed=seed,
            scifact_zip=scifact,
            as_json=as_json,
        )
    )


@bench_app.command(epilog="Example: `slipstream bench load --users 8 --seconds 30`")
def load(
    users: Annotated[int, typer.Option(min=1, help="Users asking at once.")] = 8,
    seconds: Annotated[float, typer.Option(min=1, help="How long.")] = 30.0,
    server: Server = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Ask the demo's questions from many users at once, and report times and refusals."""
    from slipstream.bench.load_run import run_load

    asyncio.run(
        run_load(
            _settings(config), Console(stderr=as_json), users=users, seconds=seconds, server=server, as_json=as_json
        )
    )


@cache_app.command(epilog="Example: `slipstream cache calibrate --pairs labelled.jsonl`")
def calibrate(
    pairs: Annotated[Path | None, typer.Option(help="JSON lines with first, second, same; default: shipped.")] = None,
    max_false_hits: Annotated[float, typer.Option(min=0, max=1, help="Share of false pairs served at most.")] = 0.005,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Measure how close in meaning another wording must be for a stored answer to serve it, per language."""
    from slipstream.commands.cache import run_calibrate

    found = asyncio.run(
        run_calibrate(
            _settings(config), Console(stderr=as_json), pairs=pairs, max_false_hits=max_false_hits, as_json=as_json
        )
    )
    sys.exit(0 if found else 1)


@bench_app.command("index", epilog="Example: `slipstream bench index --passages 1000000 --dir /big/disk/index`")
def bench_index(
    directory: Annotated[Path, typer.Option("--dir", help="Where the store is filled; what is there goes on.")],
    passages: Annotated[int, typer.Option(min=20_000, help="How many, a multiple of 10,000.")] = 1_000_000,
    as_json: AsJson = False,
) -> None:
    """Claim R2 at any size, on the synthetic corpus: about 5 GB of disk a million, three times that while building."""
    from slipstream.bench.index_run import run_index

    holds = asyncio.run(run_index(directory, passages, Console(stderr=as_json), as_json=as_json))
    sys.exit(0 if holds else 1)


@index_app.command("tune", epilog="Example: `slipstream index tune --target-recall 0.95 --apply`")
def index_tune(
    target_recall: Annotated[float, typer.Option(min=0.0, max=1.0, help="Recall@10 to reach.")] = 0.95,
    max_ms: Annotated[float | None, typer.Option(help="Longest p99 of a search, four at once.")] = None,
    queries: Annotated[int, typer.Option(min=2, help="Questions sampled; half choose, half judge.")] = 200,
    questions: Annotated[Path | None, typer.Option(help="A file of real questions, one a line.", exists=True)] = None,
    tenant: Tenant = "default",
    build: Annotated[bool, typer.Option("--build", help="Also build and measure the store's other indexes.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Make the choice the store's own.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also write a page with the curve.")] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Measure recall and time of index settings on your own vectors, and take the cheapest that finds enough."""
    from slipstream.commands.index import TuneOptions, run_tune

    options = TuneOptions(target_recall, max_ms, queries, questions, tenant, build, apply)
    reached = asyncio.run(run_tune(_settings(config), options, Console(stderr=as_json), html=html, as_json=as_json))
    sys.exit(0 if reached else 1)


def _quiet_telemetry() -> None:
    """OpenVINO's tools must not phone home from somebody's server."""
    os.environ.setdefault("OPENVINO_TELEMETRY_OPT_OUT", "1")


_quiet_telemetry()

if __name__ == "__main__":
    main()
