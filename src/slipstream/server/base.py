"""What the server asks of the parts behind it: one Protocol, met by what `build.py` puts together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

from slipstream.cache.entry import EntriesInfo, Purge
from slipstream.call import Call
from slipstream.models.base import TextKind
from slipstream.observe.metrics import Metrics
from slipstream.runtime.warmup import Readiness
from slipstream.settings import Settings
from slipstream.types import Candidate, Encoding, Event, Leg, Passage, Passages, Question, Scalar, Scorer, Tier


class ModelCard(Protocol):
    """One entry of `GET /v1/models`."""

    @property
    def id(self) -> str: ...
    @property
    def owned_by(self) -> str: ...
    @property
    def created(self) -> int:
        """Seconds since the epoch."""
        ...

    @property
    def tier(self) -> Tier | None:
        """The tier that asking for this model insists on; None for a model that writes no answers (the encoder)."""
        ...


class SearchResult(Protocol):
    """What a search found: the passages, best first, and the ranks their candidates had in each leg."""

    @property
    def passages(self) -> Passages: ...
    @property
    def candidates(self) -> Sequence[Candidate]: ...
    @property
    def legs(self) -> Sequence[Leg]: ...
    @property
    def ranked(self) -> Passages | None:
        """What reranking gave, before duplicates were collapsed and documents held to their share."""
        ...

    @property
    def named(self) -> Sequence[Passage]:
        """What the heads of the legs are, when asked to explain."""
        ...


class RankedTexts(Protocol):
    """Texts scored against a query."""

    @property
    def model(self) -> str: ...
    @property
    def scorer(self) -> Scorer: ...
    @property
    def scores(self) -> Sequence[float]:
        """In the order of the texts; higher is more relevant."""
        ...

    @property
    def tokens(self) -> int:
        """Estimated tokens that were read."""
        ...


class Document(Protocol):
    """A document as the ledger knows it."""

    @property
    def id(self) -> str: ...
    @property
    def collection(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def version(self) -> str:
        """Content hash."""
        ...

    @property
    def passages(self) -> int: ...
    @property
    def time(self) -> float:
        """Modification time, seconds since the epoch."""
        ...


class TenantState(Protocol):
    """What a tenant keeps."""

    @property
    def documents(self) -> int: ...
    @property
    def passages(self) -> int: ...
    @property
    def bytes(self) -> int:
        """Of the files the documents came from."""
        ...

    @property
    def requests(self) -> Mapping[str, int]:
        """Since the start, by kind."""
        ...


class Ingested(Protocol):
    """A document that is now searchable and durable."""

    @property
    def document(self) -> Document: ...
    @property
    def outcome(self) -> Literal["created", "replaced", "unchanged"]: ...


class Service(Protocol):
    """The program behind the wire.

    Every method may raise any SlipstreamError; the server turns it into a response once, at its border.
    It records the metrics of each call itself (`Metrics.record_call`); the server records the exchange.
    A call that is cancelled (the client left, the server stops) must stop what it started.
    """

    @property
    def settings(self) -> Settings: ...
    @property
    def metrics(self) -> Metrics: ...
    @property
    def readiness(self) -> Readiness: ...
    @property
    def models(self) -> Sequence[ModelCard]: ...

    async def start(self) -> None:
        """Loads and warms up; `readiness` says how far it is. Runs beside the server, which listens at once."""
        ...

    async def stop(self) -> None:
        """Stops everything; called once, after the last exchange, also when `start` failed."""
        ...

    def open_call(self, tenant: str, deadline_ms: int | None, request_id: str | None) -> Call:
        """A Call with the deadline asked for, or the default one. Costs nothing: admission happens in the work."""
        ...

    def refuse_if_full(self, tenant: str | None = None) -> None:
        """Raises Overloaded when no question at all could be admitted now; called before one is even parsed.

        `tenant` is the one that the caller's key is bound to.
        """
        ...

    def answer(self, question: Question, call: Call) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Found, Token…, Finished. Leaving the context cancels what runs.

        Refusals (Overloaded above all) are raised on entering or before the first event, so that they become a
        status; later errors come out of the iterator.
        """
        ...

    async def cache_info(self, call: Call) -> EntriesInfo:
        """What the call's tenant has stored. Raises NotFound when there is no answer cache."""
        ...

    async def purge_cache(self, which: Purge, call: Call) -> int:
        """Drops answers of the call's tenant; returns how many. Raises NotFound, Unavailable."""
        ...

    async def feedback(self, request_id: str, rating: str, comment: str, call: Call) -> bool:
        """Records what a reader said of an answer, "good" or "bad"; True when it was dropped. Raises NotFound."""
        ...

    async def search(
        self, question: Question, call: Call, *, limit: int, rerank: bool, explain: bool = False
    ) -> SearchResult:
        """`explain` also brings the passages at the head of each leg."""
        ...

    async def rerank(self, query: str, texts: Sequence[str], model: str | None, call: Call) -> RankedTexts:
        """Scores texts against a query; `model` None takes the best there is. Raises NotFound for one not here."""
        ...

    async def embed(self, texts: Sequence[str], kind: TextKind, call: Call) -> list[Encoding]: ...

    def upload(self, call: Call, size_bytes: int) -> AbstractAsyncContextManager[None]:
        """Held while documents are read from the wire and ingested; `size_bytes` is what the body may come to.

        Raises Overloaded at once when too much is under way.
        """
        ...

    async def ingest(
        self,
        name: str,
        data: bytes,
        call: Call,
        *,
        collection: str,
        document_id: str | None = None,
        media_type: str | None = None,
        metadata: Mapping[str, Scalar] | None = None,
        time: float | None = None,
    ) -> Ingested:
        """Indexes one document; returns when it is searchable and durable.

        `name` is the file name or path that readers see; `document_id` None takes the name as id.
        Raises DataError, with the reason, when the bytes are no readable document.
        """
        ...

    async def delete_document(self, document_id: str, call: Call, *, collection: str) -> None:
        """Raises NotFound."""
        ...

    async def get_document(self, document_id: str, call: Call, *, collection: str) -> Document:
        """Raises NotFound."""
        ...

    async def list_documents(
        self, call: Call, *, collection: str | None, after: str, after_collection: str, limit: int
    ) -> Sequence[Document]:
        """Documents of the call's tenant by id, then collection: at most `limit` of those behind the one named."""
        ...

    async def tenant(self, call: Call) -> TenantState:
        """What the call's tenant keeps, and how often it asked since the start."""
        ...

    async def delete_tenant(self, call: Call) -> TenantState:
        """Removes every document and passage of the call's tenant, durably, and says what there was."""
        ...
