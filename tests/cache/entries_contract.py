"""What every store of answers must do."""

from __future__ import annotations

import numpy as np
import pytest
from cache.stored import NOW, entry, vector

from slipstream.cache.entries import Entries
from slipstream.cache.entry import Feedback, Purge


class EntriesContract:
    """Subclasses give the `entries` fixture: open, empty, with DIMENSIONS, a day's age limit and `NOW` as time."""

    async def test_what_was_put_is_found_by_its_words(self, entries: Entries) -> None:
        stored = entry(1)
        await entries.put(stored)
        found = await entries.exact("scope", "question 1")
        assert found is not None
        assert found.answer == "答案 1 [1]"
        assert found.cited == stored.cited
        assert found.seen == stored.seen
        assert found.usage == stored.usage
        assert np.array_equal(found.tokens.codes, stored.tokens.codes)
        assert np.array_equal(found.tokens.offsets, stored.tokens.offsets)
        assert float(found.vector @ stored.vector) > 0.999
        assert await entries.exact("scope", "question 2") is None
        assert await entries.exact("other scope", "question 1") is None

    async def test_neighbours_come_best_first_and_from_the_scope_alone(self, entries: Entries) -> None:
        about = vector(100)
        for number in range(8):
            await entries.put(entry(number, vector=vector(number, near=about) if number < 3 else vector(number)))
        await entries.put(entry(9, scope="other", vector=about))
        found = await entries.nearest("scope", about, 4)
        assert {neighbour.entry_id for neighbour in found[:3]} == {"entry-0", "entry-1", "entry-2"}
        assert [n.similarity for n in found] == sorted((n.similarity for n in found), reverse=True)
        assert "entry-9" not in {neighbour.entry_id for neighbour in found}
        assert await entries.nearest("unknown", about, 4) == () or not await entries.nearest("unknown", about, 4)

    async def test_the_same_words_replace(self, entries: Entries) -> None:
        await entries.put(entry(1))
        await entries.put(entry(2, text="question 1", answer="newer [1]"))
        found = await entries.exact("scope", "question 1")
        assert found is not None
        assert found.id == "entry-2"
        assert await entries.get(["entry-1"]) == [] or not await entries.get(["entry-1"])
        assert [n.entry_id for n in await entries.nearest("scope", vector(1), 5)] == ["entry-2"]

    async def test_get_keeps_the_order_and_leaves_out_what_is_gone(self, entries: Entries) -> None:
        for number in (1, 2, 3):
            await entries.put(entry(number))
        assert [e.id for e in await entries.get(["entry-3", "gone", "entry-1"])] == ["entry-3", "entry-1"]

    @pytest.mark.parametrize(
        ("which", "left"),
        [
            (Purge(document_id="b.md"), {1, 3}),
            (Purge(document_id="b.md", collection="docs"), {1, 3}),
            (Purge(document_id="b.md", collection="elsewhere"), {1, 2, 3}),
            (Purge(tag="spring"), {1, 2}),
            (Purge(entry_id="entry-1"), {2, 3}),
            (Purge(), set()),
        ],
    )
    async def test_purging_takes_what_is_named_of_one_tenant(
        self, entries: Entries, which: Purge, left: set[int]
    ) -> None:
        from slipstream.cache.entry import Cited

        await entries.put(entry(1))
        await entries.put(entry(2, cited=(Cited(1, "p", "b.md", "docs"),)))
        await entries.put(entry(3, tag="spring"))
        await entries.put(entry(4, tenant="other", scope="theirs", tag="spring"))
        assert await entries.purge("acme", which) == 3 - len(left)
        assert {e.id for e in await entries.get([f"entry-{n}" for n in (1, 2, 3)])} == {f"entry-{n}" for n in left}
        assert {n.entry_id for n in await entries.nearest("scope", vector(1), 9)} == {f"entry-{n}" for n in left}
        assert len(await entries.get(["entry-4"])) == 1

    async def test_figures_are_of_one_tenant_or_of_all(self, entries: Entries) -> None:
        await entries.put(entry(1))
        await entries.put(entry(2, stored_at=NOW - 60))
        await entries.put(entry(3, tenant="other", scope="theirs"))
        await entries.hit("entry-1")
        await entries.hit("entry-1")
        await entries.hit("never stored")
        info = await entries.info("acme")
        assert (info.entries, info.hits, info.saved_s, info.oldest_at) == (2, 2, 3.0, NOW - 60)
        assert info.bytes > 0
        everybody = await entries.info()
        assert everybody.entries == 3
        assert (await entries.info("nobody")).entries == 0

    async def test_feedback_is_taken(self, entries: Entries) -> None:
        await entries.put(entry(1))
        await entries.record(Feedback("acme", "req_1", "entry-1", "bad", "错了", NOW))
