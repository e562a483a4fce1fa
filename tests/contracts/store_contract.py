"""What every store promises. A test module of an adapter imports these tests and gives a `store` fixture.

Vectors are drawn from a seed and texts are plain, so that the exact reference says what is right.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from uuid import UUID, uuid5

import numpy as np
import pytest

from slipstream.errors import DataError, InvalidRequest
from slipstream.stores.base import Store
from slipstream.stores.memory import MemoryStore
from slipstream.types import (
    And,
    Encoding,
    Filter,
    Hit,
    IndexedPassage,
    Match,
    Not,
    Or,
    Passage,
    Range,
    Scalar,
    Scope,
)

DIMENSIONS = 32
A, B = Scope("a"), Scope("b")
_SPACE = UUID("00000000-0000-4000-8000-000000000000")


def passage_id(*parts: object) -> str:
    return str(uuid5(_SPACE, "/".join(map(str, parts))))


def encoding(seed: int, tokens: int = 6, dimensions: int = DIMENSIONS) -> Encoding:
    """Clustered unit vectors: 40 directions with noise."""
    pick = np.random.default_rng(seed)
    centres = np.random.default_rng(7).standard_normal((40, dimensions)).astype(np.float32)
    rows = centres[pick.integers(0, 40, tokens + 1)] + 0.6 * pick.standard_normal((tokens + 1, dimensions))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    spans = np.array([[i, i + 1] for i in range(tokens)], np.int32).reshape(-1, 2)
    return Encoding(rows[0], rows[1:], spans)


def indexed(
    text: str,
    *,
    tenant: str = "a",
    document: str = "doc",
    version: str = "v1",
    collection: str = "main",
    position: int = 0,
    seed: int | None = None,
    type: str = "text",  # noqa: A002  the field's name
    time: float = 0.0,
    page: int | None = None,
    metadata: dict[str, Scalar] | None = None,
) -> IndexedPassage:
    passage = Passage(
        id=passage_id(tenant, collection, document, version, position),
        tenant=tenant,
        collection=collection,
        document_id=document,
        version=version,
        position=position,
        text=text,
        start=10,
        end=10 + len(text),
        title="Title 标题",
        source="docs/file.md",
        headings=("Guide", "安装"),
        type=type,
        time=time,
        language="en",
        page=page,
        metadata=metadata or {},
    )
    return IndexedPassage(passage, encoding(position if seed is None else seed))


def numbered(texts: Sequence[str], *, tenant: str = "a", first: int = 0) -> list[IndexedPassage]:
    return [indexed(text, tenant=tenant, position=first + n, seed=first + n) for n, text in enumerate(texts)]


async def texts_found(store: Store, query: str, scope: Scope = A) -> list[str]:
    hits = await store.search_sparse(query, scope, 10)
    return [passage.text for passage in await store.fetch([hit.passage_id for hit in hits], scope)]


async def reference(passages: Sequence[IndexedPassage]) -> MemoryStore:
    store = MemoryStore(dimensions=DIMENSIONS)
    await store.upsert(passages)
    return store


@pytest.fixture
def sparse() -> bool:
    """Whether the store searches by BM25; the module of a server that cannot overrides it."""
    return True


@pytest.fixture
def sparse_search(sparse: bool) -> None:
    if not sparse:
        pytest.skip("this server has no sparse vectors")


by_terms = pytest.mark.usefixtures("sparse_search")


# --- terms ---------------------------------------------------------------------------------------

POEM = ("床前明月光", "疑是地上霜", "举头望明月", "低头思故乡")


@by_terms
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("query", "found"),
    [("故乡", {"低头思故乡"}), ("明月", {"床前明月光", "举头望明月"}), ("霜", {"疑是地上霜"}), ("太阳", set())],
)
async def test_chinese_words_are_found_wherever_they_stand(store: Store, query: str, found: set[str]) -> None:
    await store.upsert(numbered(POEM))
    assert set(await texts_found(store, query)) == found


@by_terms
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("E1234-5", "Error E1234-5: the pump has stopped."),
        ("错误码 E1234-6 怎么处理", "错误码E1234-6表示水泵过热，请停机。"),
        ("what does getUserName return", "Call getUserName() to read the name."),
        ("max_size 默认值", "max_size 的默认值为十。"),
        ("release 2.3.5", "Release 2.3.5 mends the cache."),
    ],
)
async def test_exact_identifiers_rank_first(store: Store, query: str, best: str) -> None:
    await store.upsert(
        numbered(
            [
                "Error E1234-5: the pump has stopped.",
                "Error E1235-4: the pump has an error, see error 1234 and error 5.",
                "错误码E1234-6表示水泵过热，请停机。",
                "错误码 E6 与 1234：怎么处理错误码？错误码表见附录。",
                "Call getUserName() to read the name.",
                "What does a user get? The name of the user; what a user returns is a name.",
                "max_size 的默认值为十。",
                "默认值：size 为最大，max 为默认值，默认值见上。",
                "Release 2.3.5 mends the cache.",
                "Release 3.5.2 of release 2, release 5 and release 3.",
            ]
        )
    )
    assert (await texts_found(store, query))[0] == best


@by_terms
@pytest.mark.anyio
async def testsparse_search_returns_only_real_matches(store: Store) -> None:
    await store.upsert([*numbered(POEM), indexed("", position=9), indexed("？！…", position=10)])
    assert await store.search_sparse("quantum", A, 10) == []
    assert await store.search_sparse("", A, 10) == []
    assert await store.search_sparse("？", A, 10) == []
    assert await store.count(A) == 6


WORDS = ["pool", "连接", "cache", "缓存", "token", "prefix", "前缀", "retry", "重试", "E1234-5", "batch", "模型"]


def wordy(count: int, tenant: str = "a") -> list[IndexedPassage]:
    pick = np.random.default_rng(3)
    drawn = [[WORDS[int(i) % len(WORDS)] for i in pick.zipf(1.4, pick.integers(3, 60))] for _ in range(count)]
    return numbered([" ".join(words) for words in drawn], tenant=tenant)


@by_terms
@pytest.mark.anyio
@pytest.mark.parametrize("settled", [False, True])
async def test_after_deletes_bm25_equals_a_fresh_index(store: Store, settled: bool) -> None:
    passages = wordy(300)
    await store.upsert(passages)
    await store.upsert(wordy(80, tenant="b"))
    if settled:
        await store.optimize()
    gone = [n for n in range(300) if n % 2 or n < 60]
    await store.delete_scope(Scope("a", filter=Match("position", tuple(gone))))
    left = [p for n, p in enumerate(passages) if n not in set(gone)]
    await store.upsert(left[:20])  # written again, unchanged
    fresh = await reference(left)
    for query in [*WORDS, "cache 重试 E1234-5", "pool prefix 模型 batch"]:
        found = await store.search_sparse(query, A, 200)
        exact = await fresh.search_sparse(query, A, 200)
        assert {hit.passage_id for hit in found} == {hit.passage_id for hit in exact}
        exact_scores = {hit.passage_id: hit.score for hit in exact}
        assert [hit.score for hit in found] == pytest.approx([exact_scores[h.passage_id] for h in found], rel=1e-4)


# --- vectors -------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_dense_and_token_scores_equal_the_reference(store: Store) -> None:
    passages = wordy(200)
    await store.upsert(passages)
    exact = await reference(passages)
    ids = [p.passage.id for p in passages[:50]]
    for seed in range(1_000, 1_010):
        query = encoding(seed)
        dense, exact_dense = [await s.search_dense(query.dense, A, 10) for s in (store, exact)]
        assert [hit.passage_id for hit in dense] == [hit.passage_id for hit in exact_dense]
        assert [hit.score for hit in dense] == pytest.approx([hit.score for hit in exact_dense], abs=1e-4)
        late, exact_late = [await s.score_tokens(query.tokens, ids, A) for s in (store, exact)]
        exact_scores = {hit.passage_id: hit.score for hit in exact_late}
        assert late[0].passage_id == exact_late[0].passage_id
        assert [hit.score for hit in late] == pytest.approx([exact_scores[h.passage_id] for h in late], abs=0.05)
        assert [hit.score for hit in late] == sorted((hit.score for hit in late), reverse=True)


@pytest.mark.anyio
async def test_token_vectors_come_back_with_their_spans(store: Store) -> None:
    passage = indexed("abcdef", seed=5)
    empty = IndexedPassage(indexed("", position=1).passage, encoding(6, tokens=0))
    await store.upsert([passage, empty])
    vectors = await store.fetch_tokens([passage.passage.id, empty.passage.id], A)
    kept = vectors[passage.passage.id]
    assert kept.tokens.dtype == np.float32
    assert np.abs(kept.tokens - passage.encoding.tokens).max() < 0.01
    assert (kept.offsets == passage.encoding.offsets).all()
    assert vectors[empty.passage.id].tokens.shape == (0, DIMENSIONS)


@pytest.mark.anyio
async def test_ids_that_are_gone_or_foreign_or_no_ids_are_left_out(store: Store) -> None:
    mine, theirs = indexed("mine", tenant="a"), indexed("theirs", tenant="b")
    await store.upsert([mine, theirs])
    ids = [theirs.passage.id, passage_id("never"), "no id", mine.passage.id, mine.passage.id]
    query = encoding(1)
    assert [p.text for p in await store.fetch(ids, A)] == ["mine"]
    assert list(await store.fetch_tokens(ids, A)) == [mine.passage.id]
    assert [hit.passage_id for hit in await store.score_tokens(query.tokens, ids, A)] == [mine.passage.id]
    assert await store.fetch([], A) == []
    assert await store.score_tokens(query.tokens, [], A) == []
    assert await store.fetch(ids, Scope("a", ("other",))) == []


# --- scopes --------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_no_method_crosses_tenants(store: Store, sparse: bool) -> None:
    await store.upsert(numbered(["shared words here"] * 5, tenant="a"))
    await store.upsert(numbered(["shared words there"] * 7, tenant="b"))
    query = encoding(2)
    for scope, count, text in ((A, 5, "shared words here"), (B, 7, "shared words there")):
        assert await store.count(scope) == count
        legs = [await store.search_dense(query.dense, scope, 50)]
        if sparse:
            legs.append(await store.search_sparse("words", scope, 50))
        for hits in legs:
            assert len(hits) == count
            assert {p.text for p in await store.fetch([h.passage_id for h in hits], scope)} == {text}
        assert {p.text async for batch in _batches(store, scope) for p in batch} == {text}
    await store.delete_document("a", "main", "doc")
    assert (await store.count(A), await store.count(B)) == (0, 7)
    assert await store.count(Scope("nobody")) == 0
    assert await store.search_dense(query.dense, Scope("nobody"), 5) == []


async def _batches(store: Store, scope: Scope) -> AsyncIterator[list[Passage]]:
    async for batch in store.scan(scope, 2):
        assert len(batch) <= 2
        yield batch


@by_terms
@pytest.mark.anyio
async def test_one_tenants_documents_do_not_move_anothers_scores(store: Store) -> None:
    await store.upsert(wordy(40))
    before = await store.search_sparse("cache 重试", A, 10)
    await store.upsert(wordy(200, tenant="b"))
    after = await store.search_sparse("cache 重试", A, 10)
    assert [hit.score for hit in after] == pytest.approx([hit.score for hit in before])


FILTERS: list[Filter] = [
    Match("type", ("pdf",)),
    Match("type", ("pdf", "html")),
    Match("type", ()),
    Match("time", (3,)),
    Range("time", gte=2, lt=5),
    Range("time", lt=3),
    Range("page", gte=1),
    Match("page", (1,)),
    Not(Range("page", gte=0)),
    Match("document_id", ("d3",)),
    Match("version", ("v1",)),
    Match("language", ("en", "zh")),
    Match("collection", ("side",)),
    Match("author", ("Ada", "李白")),
    Match("metadata.author", ("Ada",)),
    Match("metadata.type", ("inner",)),
    Match("rank", (2,)),
    Match("rank", (2.0,)),
    Match("weight", (1.5,)),
    Range("rank", gte=1, lt=3),
    Match("draft", (True,)),
    Match("draft", (False,)),
    Match("draft", (1,)),
    Match("rank", (True,)),
    Match("a.b 键", ("x",)),
    Match("absent", ("x",)),
    Not(Match("absent", ("x",))),
    And(()),
    Or(()),
    Not(And(())),
    And((Match("type", ("pdf",)), Range("time", gte=3))),
    Or((Match("type", ("pdf",)), Match("rank", (2,)))),
    Not(Or((Match("type", ("pdf",)), Match("rank", (2,))))),
    And((Not(Match("type", ("pdf",))), Or((Match("draft", (True,)), Range("time", gte=6))))),
    Match("tenant", ("b",)),
]


def varied(count: int = 24) -> list[IndexedPassage]:
    types, authors = ("pdf", "html", "text"), ("Ada", "李白")
    return [
        indexed(
            "shared words",
            document=f"d{n}",
            collection="side" if n % 5 == 0 else "main",
            position=n,
            type=types[n % 3],
            time=float(n % 8),
            page=n % 4 if n % 2 else None,
            metadata={
                "author": authors[n % 2],
                "rank": n % 4,
                "draft": n % 3 == 0,
                "weight": n / 2,
                "type": "inner" if n % 7 == 0 else "outer",
                **({"a.b 键": "x"} if n % 6 == 0 else {}),
            },
        )
        for n in range(count)
    ]


@pytest.mark.anyio
async def test_filters_select_what_the_reference_selects(store: Store, sparse: bool) -> None:
    passages = varied()
    await store.upsert(passages)
    await store.upsert(numbered(["shared words"] * 3, tenant="b"))
    exact = await reference(passages)
    query = encoding(3).dense
    for clause in FILTERS:
        scope = Scope("a", filter=clause)
        wanted = {hit.passage_id for hit in await exact.search_dense(query, scope, 100)}
        assert {hit.passage_id for hit in await store.search_dense(query, scope, 100)} == wanted, clause
        if sparse:
            assert {hit.passage_id for hit in await store.search_sparse("words", scope, 100)} == wanted, clause
        assert await store.count(scope) == len(wanted), clause


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["", "metadata.", 'a"b'])
async def test_a_field_that_cannot_be_named_is_refused(store: Store, name: str) -> None:
    await store.upsert(varied(2))
    with pytest.raises(InvalidRequest, match="cannot name the field"):
        await store.count(Scope("a", filter=Match(name, ("x",))))


@pytest.mark.anyio
async def test_collections_narrow_a_scope(store: Store) -> None:
    await store.upsert(varied())
    assert await store.count(Scope("a", ("side",))) == 5
    assert await store.count(Scope("a", ("side", "main"))) == 24
    assert await store.count(Scope("a", ("none",))) == 0
    await store.delete_scope(Scope("a", ("side",)))
    assert await store.count(A) == 19


# --- writes --------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_passage_comes_back_whole(store: Store) -> None:
    whole = indexed("文本 text\n\0 \u2028 😀", page=3, time=1.25, metadata={"n": 5, "b": True, "f": 0.5, "s": "值"})
    bare = IndexedPassage(Passage(passage_id("bare"), "a", "main", "bare", "v", 0, "x", 0, 1), encoding(0))
    await store.upsert([whole, bare])
    found = await store.fetch([bare.passage.id, whole.passage.id], A)
    assert found == [bare.passage, whole.passage]
    assert isinstance(found[1].metadata["b"], bool)


@pytest.mark.anyio
async def test_an_id_written_again_is_replaced(store: Store, sparse: bool) -> None:
    first = indexed("old words", seed=1)
    second = IndexedPassage(replace(first.passage, text="new words"), encoding(2))
    await store.upsert([first])
    await store.upsert([second, second])
    assert await store.count(A) == 1
    if sparse:
        assert await texts_found(store, "old") == []
        assert await texts_found(store, "new") == ["new words"]
    assert [p.text for p in await store.fetch([first.passage.id], A)] == ["new words"]
    (hit,) = await store.search_dense(second.encoding.dense, A, 5)
    assert hit.score == pytest.approx(1, abs=1e-4)
    tokens = (await store.fetch_tokens([first.passage.id], A))[first.passage.id].tokens
    assert np.abs(tokens - second.encoding.tokens).max() < 0.01


@pytest.mark.anyio
async def test_deleting_all_but_one_version(store: Store) -> None:
    for version in ("v1", "v2"):
        await store.upsert([indexed(version, version=version, position=n) for n in range(3)])
        await store.upsert([indexed(version, version=version, document="other")])
    await store.delete_document("a", "main", "doc", except_version="v2")
    assert await store.count(A) == 5
    assert await store.count(Scope("a", filter=Match("document_id", ("doc",)))) == 3
    await store.delete_document("a", "main", "doc")
    await store.delete_document("a", "main", "never there")
    assert await store.count(A) == 2


@pytest.mark.anyio
async def test_what_cannot_be_stored_is_refused_whole(store: Store) -> None:
    good = indexed("good")
    for bad in (
        IndexedPassage(replace(good.passage, id="not a uuid"), good.encoding),
        IndexedPassage(good.passage, encoding(1, dimensions=DIMENSIONS * 2)),
        IndexedPassage(good.passage, replace(good.encoding, offsets=np.zeros((1, 2), np.int32))),
        IndexedPassage(good.passage, replace(good.encoding, dense=good.encoding.dense * np.float32("nan"))),
        IndexedPassage(replace(good.passage, text="half a pair \ud800"), good.encoding),
    ):
        with pytest.raises(DataError):
            await store.upsert([good, bad])
        assert await store.count(A) == 0


@pytest.mark.anyio
async def test_scan_sees_every_passage_once(store: Store) -> None:
    passages = varied(23)
    await store.upsert(passages)
    seen = [p.id async for batch in store.scan(Scope("a", filter=Not(Match("type", ("pdf",)))), 4) for p in batch]
    assert sorted(seen) == sorted(p.passage.id for p in passages if p.passage.type != "pdf")


@pytest.mark.anyio
async def test_export_gives_everything_whole_in_order_of_id(store: Store) -> None:
    passages = [*varied(17), *numbered(POEM, tenant="b")]
    passages.append(IndexedPassage(indexed("no tokens", position=90).passage, encoding(6, tokens=0)))
    await store.upsert(passages)
    by_id = {p.passage.id: p for p in passages}
    batches = [batch async for batch in store.export(batch=5)]
    assert all(1 <= len(batch) <= 5 for batch in batches)
    exported = [p for batch in batches for p in batch]
    assert [p.passage.id for p in exported] == sorted(by_id)
    for p in exported:
        given = by_id[p.passage.id]
        assert p.passage == given.passage
        assert np.abs(p.encoding.dense - given.encoding.dense).max() < 1e-5
        assert p.encoding.tokens.shape == given.encoding.tokens.shape
        assert np.abs(p.encoding.tokens - given.encoding.tokens).max(initial=0) < 0.01
        assert (p.encoding.offsets == given.encoding.offsets).all()


@pytest.mark.anyio
async def test_export_goes_on_behind_an_id_that_may_be_gone(store: Store) -> None:
    passages = varied(12)
    await store.upsert(passages)
    ids = sorted(p.passage.id for p in passages)
    assert [p.passage.id async for batch in store.export(ids[4], 3) for p in batch] == ids[5:]
    gone = next(p.passage for p in passages if p.passage.id == ids[4])
    await store.delete_document("a", gone.collection, gone.document_id)
    assert [p.passage.id async for batch in store.export(ids[4], 3) for p in batch] == ids[5:]
    assert [batch async for batch in store.export(ids[-1])] == []


@pytest.mark.anyio
async def test_an_export_can_be_written_again(store: Store) -> None:
    await store.upsert(varied(9))
    exported = [p async for batch in store.export() for p in batch]
    await store.delete_scope(A)
    await store.upsert(exported)
    assert [p.passage async for batch in store.export() for p in batch] == [p.passage for p in exported]
    query = encoding(3)
    assert len(await store.score_tokens(query.tokens, [p.passage.id for p in exported], A)) == 9


@pytest.mark.anyio
async def test_reads_during_writes_and_optimize_see_whole_passages(store: Store, sparse: bool) -> None:
    """A read beside writes finds everything acknowledged before it, and nothing that was deleted before it."""
    await store.upsert(wordy(100, tenant="b"))
    acknowledged = 0
    done = asyncio.Event()

    async def write() -> None:
        nonlocal acknowledged
        for start in range(0, 240, 8):
            await store.upsert(numbered([f"growing words {n}" for n in range(start, start + 8)], first=start))
            acknowledged += 8
        done.set()

    async def growing() -> list[Hit]:
        if sparse:
            return await store.search_sparse("growing", A, 1_000)
        return await store.search_dense(encoding(4).dense, A, 1_000)

    async def read() -> None:
        while not done.is_set():
            least = acknowledged
            hits = await growing()
            assert len(hits) >= least
            ids = [hit.passage_id for hit in hits[:20]]
            assert len(await store.score_tokens(encoding(4).tokens, ids, A)) == len(ids)
            assert len(await store.fetch_tokens(ids, A)) == len(ids)
            assert len(await store.search_dense(encoding(4).dense, B, 200)) == 100

    await asyncio.gather(write(), read(), read(), store.optimize())
    assert await store.count(A) == 240
    assert len(await growing()) == 240


@pytest.mark.anyio
@pytest.mark.parametrize("total", [5_000, pytest.param(100_000, marks=pytest.mark.heavy)])
async def test_recall_of_a_small_tenant_among_many(store: Store, total: int) -> None:
    """One tenant with 100 passages among many: filters are part of the search, so nothing is missed."""
    types, small = ("pdf", "html", "text"), 100
    every = total // small
    everything = [
        indexed("words", tenant=f"t{n % 7}" if n % every else "small", position=n, type=types[n % 3], time=n)
        for n in range(total)
    ]
    for start in range(0, total, 2_000):
        await store.upsert(everything[start : start + 2_000])
    await store.optimize()
    exact = await reference(everything)
    clauses: list[Filter | None] = [
        None,
        Match("type", ("pdf",)),
        Range("time", gte=total / 2),
        And((Match("type", ("pdf", "text")), Range("time", lt=total / 3))),
    ]
    for tenant, least in (("small", 1.0), ("t1", 0.98)):
        for clause in clauses:
            scope, recall = Scope(tenant, filter=clause), []
            for seed in range(20):
                query = encoding(2_000_000 + seed).dense
                wanted = {hit.passage_id for hit in await exact.search_dense(query, scope, 10)}
                found = {hit.passage_id for hit in await store.search_dense(query, scope, 10)}
                recall.append(len(found & wanted) / max(1, len(wanted)))
            assert np.mean(recall) >= least, (tenant, clause)


@pytest.mark.anyio
async def test_what_the_store_says_of_itself(store: Store) -> None:
    await store.upsert(varied())
    info = await store.info()
    assert info.passages == 24
    assert info.segments >= 1
    assert store.healthy()
