"""encoder: batches run near the processor's fp32 rate, a lone query near the time of reading the weights."""

from __future__ import annotations

from slipstream.bench.claims import Bar, Claim, Finding, Say
from slipstream.bench.encoder_claims import EncoderFigures, measure_encoder
from slipstream.models.encoder import OpenVinoEncoder
from slipstream.models.provision import Provisioner
from slipstream.settings import EncoderSettings, Settings


async def measure(settings: Settings, say: Say) -> Finding:
    say("the machine's limits and the encoder, alternately")
    provisioner = Provisioner(settings.models.cache_dir, offline=settings.models.offline)
    home = provisioner.ensure(settings.models.encoder, "encoder").path
    encoder = OpenVinoEncoder(home, settings.encoder)
    figures = await _measured(encoder, settings.encoder)
    f32_ratio = figures.batch_ratio
    if encoder.passage_precision != "f32":
        say("the same with passages in f32")
        plain = settings.encoder.model_copy(update={"precision": "f32"})
        f32_ratio = (await _measured(OpenVinoEncoder(home, plain), plain, repeats=5)).batch_ratio
    sides = (figures.peak, figures.batch, figures.tokens, figures.memory, figures.floor, figures.query, figures.busy)
    return Finding(
        sides,
        (
            Bar("batches: share of the fp32 matrix rate", figures.batch_ratio, "", ">=", 0.85),
            Bar("the same with passages in f32", f32_ratio, "", "report"),
            Bar("lone query over the time to read the weights as fp32", figures.query_ratio, "×", "<=", 2.0),
            Bar("the same over the time to read what it reads", figures.query_ratio_of_read, "×", "report"),
            Bar("lone query p99", figures.query_p99_ms, "ms", "report"),
            Bar("query while passages are encoded, median", figures.busy.median, "ms", "report"),
            Bar("query while passages are encoded, p99", figures.busy_p99_ms, "ms", "report"),
        ),
        f"passages in {encoder.passage_precision}; weights are {figures.cost.float_bytes / 1e6:.0f} MB as fp32, "
        f"{figures.cost.streamed_bytes / 1e6:.0f} MB as a query reads them; tokenising and hand-over included",
    )


async def _measured(encoder: OpenVinoEncoder, settings: EncoderSettings, repeats: int = 9) -> EncoderFigures:
    await encoder.warm_up()
    try:
        return await measure_encoder(encoder, settings, repeats)
    finally:
        await encoder.close()


CLAIM = Claim("encoder", "The encoder runs near what the processor and the memory allow.", measure, 1)
