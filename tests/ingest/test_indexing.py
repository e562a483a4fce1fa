from __future__ import annotations

import numpy as np
import pytest

from slipstream.ingest.indexing import context_of, index_passages
from slipstream.models.fake_encoder import FakeEncoder
from slipstream.types import Passage


def passage(text: str, *headings: str) -> Passage:
    return Passage("id", "t", "c", "d", "v", 0, text, 0, len(text), headings=headings)


@pytest.mark.parametrize(
    ("text", "headings", "context"),
    [
        ("Just text.", (), ""),
        ("It is twenty.", ("Pool", "Size"), "Pool > Size\n"),
        ("## Size\n\nIt is twenty.", ("Pool", "Size"), "Pool\n"),
        ("text", ("long " * 100,), None),
    ],
)
def test_the_headings_a_passage_does_not_show_itself(text: str, headings: tuple[str, ...], context: str | None) -> None:
    found = context_of(passage(text, *headings))
    assert found == context if context is not None else len(found) == 161


@pytest.mark.anyio
async def test_token_spans_are_of_the_passage_and_the_dense_vector_sees_the_headings() -> None:
    encoder = FakeEncoder()
    alone, under = await index_passages(
        [passage("默认值是 twenty."), passage("默认值是 twenty.", "连接池 size")], encoder
    )
    assert np.array_equal(alone.encoding.offsets, under.encoding.offsets)
    assert [under.passage.text[a:b] for a, b in under.encoding.offsets] == ["默", "认", "值", "是", "twenty"]
    (question,) = await encoder.encode(["连接池 size"], "query")
    assert question.dense @ under.encoding.dense > question.dense @ alone.encoding.dense + 0.2
