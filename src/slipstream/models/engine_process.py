"""The engine process: loads the model, then turns the orders on its connection into steps and reports.

It is a process because the pipeline's `step()` keeps Python's global lock for its whole duration (up to a
second), which would stop every other thread of the server.
"""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.connection import Connection

import openvino_genai

from slipstream.errors import ConfigError, SlipstreamError
from slipstream.models.engine_loop import EngineLoop
from slipstream.models.engine_wire import Cancel, Close, Open, Opened, OpenFailed, Submit
from slipstream.models.kv_budget import BLOCK_TOKENS, KvBudget, kv_budget
from slipstream.models.vocabulary import last_line, stop_ids, vocabulary

_NICENESS = 10
"""Steps take every core there is: refusals, health checks and evidence, which need little, go before them."""


def main(descriptor: int) -> None:
    """Serves until a Close order, or until the other end is gone."""
    for number in (signal.SIGINT, signal.SIGTERM):  # these reach the whole group; the server decides when we end
        signal.signal(number, signal.SIG_IGN)
    os.nice(_NICENESS)
    connection = Connection(descriptor)
    try:
        loop = _open(connection)
        if loop is not None:
            _serve(connection, loop)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the server died: so do we


def _open(connection: Connection) -> EngineLoop | None:
    order: Open = connection.recv()
    try:
        budget = kv_budget(order.directory, order.kv_cache_gib)
        pipeline = openvino_genai.ContinuousBatchingPipeline(
            order.directory, _scheduler(order, budget), "CPU", _properties(order)
        )
    except SlipstreamError as error:
        connection.send(OpenFailed("settings" if isinstance(error, ConfigError) else "model", error.message))
        return None
    except RuntimeError as error:
        connection.send(OpenFailed("model", f"The model in {order.directory} cannot be loaded: {last_line(error)}."))
        return None
    tokenizer = pipeline.get_tokenizer()
    loop = EngineLoop(
        pipeline,
        vocabulary(tokenizer),
        stop_ids(tokenizer),
        blocks=budget.blocks,
        block_tokens=BLOCK_TOKENS,
        slots=order.max_sequences,
    )
    connection.send(Opened(budget.blocks, BLOCK_TOKENS))
    return loop


def _serve(connection: Connection, loop: EngineLoop) -> None:
    while _take_orders(connection, loop):
        if (report := loop.admit()) is not None:
            connection.send(report)
        connection.send(loop.step())
    loop.cancel_all()
    while loop.busy():
        loop.step()


def _take_orders(connection: Connection, loop: EngineLoop) -> bool:
    """Sleeps until there is work; False when told to close."""
    while connection.poll(0 if loop.busy() else None):
        match connection.recv():
            case Submit() as order:
                loop.submit(order)
            case Cancel(request_id):
                loop.cancel(request_id)
            case Close():
                return False
    return True


def _scheduler(order: Open, budget: KvBudget) -> openvino_genai.SchedulerConfig:
    config = openvino_genai.SchedulerConfig()
    config.num_kv_blocks = budget.blocks
    config.max_num_batched_tokens = order.max_batch_tokens
    config.max_num_seqs = order.max_sequences
    config.dynamic_split_fuse = True
    config.enable_prefix_caching = True
    return config


def _properties(order: Open) -> dict[str, str | int]:
    properties: dict[str, str | int] = {"PERFORMANCE_HINT": "LATENCY", "KV_CACHE_PRECISION": "u8"}
    if order.threads:
        properties["INFERENCE_NUM_THREADS"] = order.threads
    return properties


if __name__ == "__main__":
    main(int(sys.argv[1]))
