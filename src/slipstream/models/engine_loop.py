"""The scheduler around a continuous-batching pipeline: admit, step, collect — one thread, one process."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import openvino as ov
import openvino_genai

from slipstream.models.detokenize import TextStream, Vocabulary
from slipstream.models.engine_wire import Admitted, Failed, Piece, Step, Submit
from slipstream.models.generation_config import generation_config
from slipstream.models.prefix_ledger import PrefixLedger
from slipstream.types import FinishReason

_SETTLE_STEPS = 2
"""Steps after the last request left: the first frees its blocks, the second brings the metrics up to date."""
_Reason = openvino_genai.GenerationFinishReason
_Status = openvino_genai.GenerationStatus


@dataclass(slots=True, eq=False)
class _Running:
    order: Submit
    handle: openvino_genai.GenerationHandle
    """Dropping it cancels the request."""
    text: TextStream
    blocks: int
    generated: list[int] = field(default_factory=list)
    unsent: int = 0
    """Tokens generated whose text is still held back."""


class EngineLoop:
    """Requests enter the pipeline in order of arrival, when a sequence and all their blocks are free.

    So the pipeline never runs out of memory half-way, where it would recompute or give up without a word.
    """

    def __init__(
        self,
        pipeline: openvino_genai.ContinuousBatchingPipeline,
        vocabulary: Vocabulary,
        stop_ids: frozenset[int],
        *,
        blocks: int,
        block_tokens: int,
        slots: int,
    ) -> None:
        self._pipeline = pipeline
        self._vocabulary = vocabulary
        self._stop_ids = stop_ids
        self._ledger = PrefixLedger(blocks, block_tokens)
        self._free_blocks = blocks
        self._block_tokens = block_tokens
        self._slots = slots
        self._waiting: deque[Submit] = deque()
        self._running: dict[int, _Running] = {}
        self._settle = 0
        self._steps = 0
        self._items: list[Admitted | Piece | Failed] = []

    def submit(self, order: Submit) -> None:
        self._waiting.append(order)

    def cancel(self, request_id: int) -> None:
        """Its blocks are free after the next step. Unknown and finished ids are ignored."""
        if request_id in self._running:
            self._running[request_id].handle.cancel()
            self._release(request_id)
        else:
            self._waiting = deque(order for order in self._waiting if order.id != request_id)

    def cancel_all(self) -> None:
        self._waiting.clear()
        for request_id in tuple(self._running):
            self.cancel(request_id)

    def busy(self) -> bool:
        """True while a step is due."""
        return bool(self._running or self._waiting or self._settle)

    def admit(self) -> Step | None:
        """Moves waiting requests into the pipeline; what to report, if any moved."""
        while self._waiting and len(self._running) < self._slots:
            order = self._waiting[0]
            blocks = -(-(len(order.ids) + order.sampling.max_tokens) // self._block_tokens)
            if blocks > self._free_blocks and self._running:
                break
            self._waiting.popleft()
            self._enter(order, blocks)
        return self._report() if self._items else None

    def step(self) -> Step:
        """Computes one batch: every running stream's next token, and prompts with what is left of the batch."""
        if not self._running:
            self._settle = max(0, self._settle - 1)
        self._pipeline.step()
        self._steps += 1
        for request_id, running in tuple(self._running.items()):
            while request_id in self._running and running.handle.can_read():
                for output in running.handle.read().values():
                    self._accept(running, output.generated_ids, _reason(output.finish_reason))
            if request_id in self._running and running.handle.get_status() in (_Status.IGNORED, _Status.CANCEL):
                self._release(request_id)
                self._items.append(Failed(request_id, True, "the KV cache is exhausted"))
        return self._report()

    def _enter(self, order: Submit, blocks: int) -> None:
        config = generation_config(order.sampling, self._stop_ids)
        cached = self._ledger.cached_tokens(order.ids, order.tenant)
        try:
            handle = self._pipeline.add_request(order.id, ov.Tensor(order.ids.reshape(1, -1)), config)
        except RuntimeError as error:
            self._items.append(Failed(order.id, False, str(error)))
            return
        self._running[order.id] = _Running(order, handle, TextStream(self._vocabulary, order.sampling.stop), blocks)
        self._free_blocks -= blocks
        self._items.append(Admitted(order.id, cached))

    def _accept(self, running: _Running, ids: Sequence[int], reason: FinishReason | None) -> None:
        if not running.generated:
            self._ledger.computed(running.order.ids, running.order.tenant)
        running.generated.extend(ids)
        running.unsent += len(ids)
        text = running.text.push(ids)
        if running.text.stopped:
            reason = "stop"
            running.handle.cancel()
        if reason is not None:
            self._release(running.order.id)
            text += running.text.finish()
        if text or reason is not None:
            count, running.unsent = running.unsent, 0
            self._items.append(Piece(running.order.id, text, count, reason, len(running.generated)))

    def _release(self, request_id: int) -> None:
        running = self._running.pop(request_id)
        self._free_blocks += running.blocks
        self._settle = _SETTLE_STEPS
        if running.generated:  # the last one has no KV yet
            whole = np.append(running.order.ids, running.generated[:-1]).astype(np.int64)
            self._ledger.computed(whole, running.order.tenant)

    def _report(self) -> Step:
        items, self._items = tuple(self._items), []
        return Step(items, self._steps, len(self._running), self._pipeline.get_metrics().cache_usage / 100)


def _reason(reason: openvino_genai.GenerationFinishReason) -> FinishReason | None:
    if reason == _Reason.NONE:
        return None
    return "length" if reason == _Reason.LENGTH else "stop"
