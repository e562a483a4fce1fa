"""`slipstream cache calibrate`: precision and recall over thresholds on labelled pairs, and the settings to use."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.text import Text

from slipstream.bench.cache_pairs import Pair, read_pairs, shipped_pairs
from slipstream.build import build_encoder
from slipstream.cache.calibration import Calibration, Point, Scored, calibrate
from slipstream.cache.guard import compare
from slipstream.cache.meaning import closeness
from slipstream.commands.fetching import provisioner
from slipstream.models.base import Encoder
from slipstream.settings import Settings
from slipstream.types import Encoding, Language

_BATCH = 64
_WIDTH = 40
_SHOWN = 0.06
"""How far around the chosen threshold the curve is drawn."""
_NAMES: dict[str, str] = {"en": "English", "zh": "Chinese"}


async def run_calibrate(
    settings: Settings, console: Console, *, pairs: Path | None, max_false_hits: float, as_json: bool
) -> bool:
    """True when thresholds within the bound were found for every language met."""
    labelled = read_pairs(pairs) if pairs is not None else shipped_pairs("dev")
    encoder = await asyncio.to_thread(build_encoder, settings, provisioner(settings, console))
    try:
        with console.status("Loading the encoder …") as status:
            await encoder.warm_up()
            encoded = await _encoded(encoder, labelled, status.update)
    finally:
        await encoder.close()
    found = {
        language: calibrate([_scored(p, encoded) for p in labelled if p.language == language], max_false_hits)
        for language in _languages(labelled)
    }
    if as_json:
        print(json.dumps({language: asdict(c) for language, c in found.items()}, ensure_ascii=False, indent=2))
    for language, calibration in found.items():
        _show(console, language, calibration, max_false_hits)
    _show_settings(console, found)
    return all(calibration.within_bound for calibration in found.values())


async def _encoded(encoder: Encoder, labelled: Sequence[Pair], say: object) -> dict[str, Encoding]:
    texts = sorted({text for pair in labelled for text in (pair.first, pair.second)}, key=len)
    encoded: dict[str, Encoding] = {}
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        encoded.update(zip(batch, await encoder.encode(batch, "query"), strict=True))
        if callable(say):
            say(f"Encoding questions: {len(encoded)} of {len(texts)}")
    return encoded


def _scored(pair: Pair, encoded: dict[str, Encoding]) -> Scored:
    form = compare(pair.first, pair.second, pair.language)
    first, second = encoded[pair.first], encoded[pair.second]
    return Scored(pair.same, form, closeness(first.tokens, first.offsets, second.tokens, second.offsets, form))


def _languages(labelled: Sequence[Pair]) -> list[Language]:
    return [language for language in ("en", "zh") if any(pair.language == language for pair in labelled)]


def _show(console: Console, language: Language, calibration: Calibration, bound: float) -> None:
    negatives = calibration.pairs - calibration.true_pairs
    console.print(
        f"\n[bold]{_NAMES[language]}[/]: {calibration.true_pairs} pairs that mean the same, {negatives} that do not; "
        f"{calibration.passed_form} pass the form guard",
        highlight=False,
    )
    console.print("[dim]closeness   precision   false hits   recall[/]")
    for point in calibration.curve:
        if abs(point.both_ways - calibration.chosen.both_ways) <= _SHOWN and point.recall:
            console.print(_line(point, chosen=point.both_ways == calibration.chosen.both_ways))
    chosen = calibration.chosen
    if calibration.within_bound:
        console.print(
            f"Chosen: closeness {chosen.both_ways:.3f}, weakest word {chosen.weakest:.2f}: {chosen.false_hits:.2%} "
            f"false hits, {chosen.recall:.1%} of the paraphrases served",
            highlight=False,
        )
    else:
        console.print(f"[yellow]Nothing keeps false hits below {bound:.2%}: only equal words would be served.[/]")


def _line(point: Point, *, chosen: bool) -> Text:
    bar = "█" * round(point.recall * _WIDTH)
    figures = f"{point.both_ways:9.3f}   {point.precision:9.1%}   {point.false_hits:10.2%}   {point.recall:6.1%} "
    return Text(f"{figures} {bar}", style="bold green" if chosen else "")


def _show_settings(console: Console, found: dict[Language, Calibration]) -> None:
    console.print("\nIn slipstream.toml:\n\n[bold]\\[cache.thresholds][/]")
    for language, calibration in found.items():
        console.print(f"{language} = [{calibration.chosen.both_ways}, {calibration.chosen.weakest}]", markup=False)
