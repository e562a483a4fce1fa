"""R10: late interaction over the same candidates costs a tenth of a cross-encoder, or less."""

from __future__ import annotations

import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

from slipstream.bench.claims import Bar, Claim, Finding, Say, Side
from slipstream.bench.datasets import EvaluationSet, shipped
from slipstream.bench.quality import TENANT, index
from slipstream.bench.random_cross_encoder import write_random_cross_encoder
from slipstream.build import build_store
from slipstream.models.cross_encoder import OpenVinoCrossEncoder
from slipstream.models.encoder import OpenVinoEncoder
from slipstream.models.encoder_directory import EncoderDirectory
from slipstream.models.provision import Provisioner
from slipstream.settings import Settings
from slipstream.types import Scope

CANDIDATES, ROUNDS, LATE_PER_ROUND = 100, 5, 5


async def measure(settings: Settings, say: Say) -> Finding:
    provisioner = Provisioner(settings.models.cache_dir, offline=settings.models.offline)
    home = provisioner.ensure(settings.models.encoder, "encoder").path
    data = shipped("xquad_en")
    few = EvaluationSet(data.name, data.passages[:CANDIDATES], data.items)
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slipstream-r10-")))
        made = write_random_cross_encoder(directory / "model", EncoderDirectory(home).tokenizer)
        cross = OpenVinoCrossEncoder(made, settings.cross_encoder)
        encoder = OpenVinoEncoder(home, settings.encoder)
        stack.push_async_callback(cross.close)
        stack.push_async_callback(encoder.close)
        await cross.warm_up()
        await encoder.warm_up()
        here = settings.model_copy(update={"data": settings.data.model_copy(update={"dir": directory})})
        store = build_store(here, encoder)
        await store.open()
        stack.push_async_callback(store.close)
        say(f"encoding {CANDIDATES} passages")
        ids = await index(few, store, encoder, lambda done: None)
        scope = Scope(TENANT, (few.name,))
        say("both, alternately")
        late_ms: list[float] = []
        maxsim_ms: list[float] = []
        cross_ms: list[float] = []
        for number in range(ROUNDS + 1):
            question = data.items[number].question
            whole, alone = [], []
            for _ in range(LATE_PER_ROUND):
                began = time.perf_counter()
                [encoding] = await encoder.encode([question], "query")
                encoded = time.perf_counter()
                await store.score_tokens(encoding.tokens, ids, scope)
                done = time.perf_counter()
                whole.append(1e3 * (done - began))
                alone.append(1e3 * (done - encoded))
            began = time.perf_counter()
            await cross.score([(question, passage) for passage in few.passages])
            if number:  # the first round warms both up
                late_ms.append(median(whole))
                maxsim_ms.append(median(alone))
                cross_ms.append(1e3 * (time.perf_counter() - began))
        lengths = [len(pair.ids) for pair in await cross.tokenize([(data.items[0].question, p) for p in few.passages])]
    ratio = median(a / b for a, b in zip(cross_ms, late_ms, strict=True))
    return Finding(
        (
            Side("cross-encoder, MiniLM-L6 shape", "ms", tuple(cross_ms)),
            Side("late interaction, query encoding included", "ms", tuple(late_ms)),
            Side("late interaction alone", "ms", tuple(maxsim_ms)),
        ),
        (
            Bar("cross-encoder over late interaction", ratio, "×", ">=", 10.0),
            Bar(
                "the same, without the query's encoding, which the dense leg needs anyway",
                _alone(cross_ms, maxsim_ms),
                "×",
                "report",
            ),
        ),
        f"the same {CANDIDATES} passages, median {median(lengths):.0f} tokens a pair; random weights",
    )


def _alone(cross_ms: list[float], maxsim_ms: list[float]) -> float:
    return median(a / b for a, b in zip(cross_ms, maxsim_ms, strict=True))


CLAIM = Claim("R10", "Late interaction over stored token vectors costs a tenth of a cross-encoder.", measure, 1)
