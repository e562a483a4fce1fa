from __future__ import annotations

from slipstream.demo.questions import CORPUS, demo_questions
from slipstream.text.language import language_of


def test_every_answer_stands_in_its_document() -> None:
    for question in demo_questions():
        text = (CORPUS / question.document).read_text("utf-8")
        assert any(answer in text for answer in question.answers), question.id


def test_half_of_the_questions_are_chinese() -> None:
    questions = demo_questions()
    assert len({question.id for question in questions}) == 40
    assert [question.language for question in questions] == ["en"] * 20 + ["zh"] * 20
    assert all(language_of(question.question) == question.language for question in questions)


def test_the_corpus_is_small_and_keeps_its_licence() -> None:
    assert sum(path.stat().st_size for path in CORPUS.rglob("*.md")) <= 400_000
    assert "MIT" in (CORPUS.parent / "CORPUS_LICENSE.txt").read_text("utf-8")
