from __future__ import annotations

import random
from itertools import pairwise

import pytest

from slipstream.demo.questions import CORPUS
from slipstream.ingest.chunking import Chunk, ChunkLimits, chunk
from slipstream.ingest.document import Document
from slipstream.ingest.loaders import load_bytes
from slipstream.models.fake_encoder import FakeEncoder
from slipstream.text.sentences import sentences

COUNT = FakeEncoder().count_tokens
LIMITS = ChunkLimits(target=60, cap=120)


def markdown(text: str) -> Document:
    return load_bytes("page.md", text.encode())


def texts(document: Document, limits: ChunkLimits = LIMITS) -> list[str]:
    return [document.text[part.start : part.end] for part in chunk(document, COUNT, limits)]


def words(count: int, word: str = "word") -> str:
    return " ".join([word] * (count - 1)) + f" {word}."


def test_a_short_document_is_one_chunk() -> None:
    document = markdown("# Title\n\nOne sentence.\n")
    (only,) = chunk(document, COUNT, LIMITS)
    assert document.text[only.start : only.end] == "# Title\n\nOne sentence."
    assert only == Chunk(0, 22, ("Title",), None, 3)


def test_sections_are_not_mixed_unless_tiny() -> None:
    long = words(58)
    document = markdown(
        f"# Guide\n\n## One\n\n{long}\n\n## Two\n\n{long}\n\n## Three\n\nTiny.\n\n## Four\n\nTiny too.\n"
    )
    parts = list(chunk(document, COUNT, LIMITS))
    assert [part.headings for part in parts] == [("Guide",), ("Guide", "Two"), ("Guide",)]
    assert texts(document)[2] == "## Three\n\nTiny.\n\n## Four\n\nTiny too."


def test_a_long_section_falls_into_even_parts() -> None:
    document = markdown("# A\n\n" + "\n\n".join(words(20, f"w{n}") for n in range(7)))
    counts = COUNT(texts(document))
    assert len(counts) == 3
    assert min(counts) >= 40


def test_code_and_tables_stay_whole_when_they_fit() -> None:
    code = "```py\n" + "\n".join(f"line_{n} = {n}" for n in range(40)) + "\n```"
    table = "| a | b |\n|---|---|\n" + "\n".join(f"| {n} | x |" for n in range(35))
    document = markdown(f"# A\n\n{words(50)}\n\nLike this:\n\n{code}\n\n{table}\n")
    found = texts(document)
    assert any(code in text for text in found)
    assert any(table in text for text in found)
    assert any(text.startswith("Like this:\n\n```py") for text in found)


def test_code_over_the_cap_falls_into_lines() -> None:
    document = markdown("```\n" + "\n".join(f"a{n} = b{n} + c{n}" for n in range(200)) + "\n```\n")
    found = texts(document)
    assert max(COUNT(found)) <= LIMITS.cap
    assert all(text.endswith(("```", *(f"c{n}" for n in range(200)))) for text in found)


def test_no_sentence_is_cut() -> None:
    paragraph = " ".join(words(11, f"w{n}").capitalize() for n in range(60))
    document = load_bytes("long.txt", paragraph.encode())
    assert [len(sentences(text)) for text in texts(document)] == [len(sentences(t)) for t in texts(document)]
    assert all(text.endswith(".") for text in texts(document))


def test_what_has_no_boundary_at_all_is_halved_to_the_cap() -> None:
    document = load_bytes("blob.txt", ("字" * 5_000).encode())
    assert max(COUNT(texts(document))) <= LIMITS.cap


def test_overlap_repeats_whole_sentences() -> None:
    paragraph = " ".join(words(11, f"w{n}").capitalize() for n in range(30))
    document = load_bytes("long.txt", paragraph.encode())
    parts = list(chunk(document, COUNT, ChunkLimits(60, 120, overlap=15)))
    for first, second in pairwise(parts):
        shared = document.text[second.start : first.end]
        assert COUNT([shared]) == [11]
        assert shared.endswith(".")


def test_headings_leave_room_in_the_cap() -> None:
    heading = words(30, "heading").rstrip(".")
    document = markdown(f"# {heading}\n\n```\n" + "\n".join(f"a{n} = b" for n in range(200)) + "\n```\n")
    assert max(COUNT(texts(document))) <= LIMITS.cap - 30


PIECES = [
    "# One\n\n",
    "## Two\n\n",
    "### 三\n\n",
    "A sentence. Another one, longer than that.\n\n",
    "一句话。又一句话！\n\n",
]
PIECES += ["- item\n- item two\n\n", "```\ncode = 1\n```\n\n", "| a |\n|---|\n| 1 |\n\n", "***\n\n", words(90) + "\n\n"]
PIECES += [
    "很长的一段话，" * 30 + "完。\n\n",
    "lead-in:\n\n",
    "    indented\n\n",
    "<div>html</div>\n\n",
    "> quote\n> more\n\n",
]


@pytest.mark.parametrize("seed", range(150))
def test_chunks_are_exact_ordered_bounded_and_complete(seed: int) -> None:
    pick = random.Random(seed)
    document = markdown("".join(pick.choices(PIECES, k=pick.randrange(1, 60))))
    parts = list(chunk(document, COUNT, LIMITS))
    last, covered = 0, set[int]()
    for part in parts:
        text = document.text[part.start : part.end]
        assert last <= part.start < part.end
        assert text == text.strip("\n").rstrip()
        assert COUNT([text])[0] <= LIMITS.cap
        covered.update(range(part.start, part.end))
        last = part.end
    assert all(at in covered for at, character in enumerate(document.text) if character.isalnum())


def test_the_demo_corpus_makes_some_hundred_passages_of_useful_length() -> None:
    counts = [
        part.tokens
        for path in sorted(CORPUS.rglob("*.md"))
        for part in chunk(load_bytes(path.name, path.read_bytes()), COUNT, ChunkLimits(200, 502))
    ]
    assert 300 < len(counts) < 1_500
    assert sorted(counts)[len(counts) // 2] > 120
    assert sum(count < 30 for count in counts) / len(counts) < 0.05
