from __future__ import annotations

import pytest

from slipstream.text.terms import query_terms, stem, terms


def asked(text: str) -> list[str]:
    return [term.text for term in query_terms(text)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Connections", "connection"),
        ("policies", "policy"),
        ("stopped", "stop"),
        ("running", "run"),
        ("caching", "caches"),
        ("quickly", "quick"),
        ("Beyoncé", "beyonce"),
        ("Ｅ１２３", "e123"),
        ("1,234,567", "1234567"),
        ("HTTPServer", "httpserver"),
    ],
)
def test_forms_of_a_word_share_a_term(one: str, other: str) -> None:
    assert set(terms(one)) & set(terms(other))


@pytest.mark.parametrize("word", ["is", "gas", "class", "bus", "ring", "red", "用", "naïveté", "x86s"])
def test_short_and_irregular_words_are_left_alone(word: str) -> None:
    assert stem(word) == word


@pytest.mark.parametrize(
    ("text", "whole", "parts"),
    [
        ("E1234-5", "e1234-5", {"e1234", "1234", "5"}),
        ("max_pool_size", "max_pool_size", {"max", "pool", "size"}),
        ("getUserName", "getusername", {"get", "user", "name"}),
        ("numpy.float32", "numpy.float32", {"numpy", "float32", "float", "32"}),
        ("v2.3.5", "v2.3.5", {"2", "3", "5"}),
        ("iPhone15", "iphone15", {"iphone", "15"}),
        ("std::vector", "std::vector", {"std", "vector"}),
        ("docs/en/index.md", "docs/en/index.md", {"docs", "index", "md"}),
    ],
)
def test_an_identifier_is_a_term_whole_and_in_parts(text: str, whole: str, parts: set[str]) -> None:
    found = terms(text)
    assert found[0] == stem(whole)
    assert {stem(part) for part in parts} <= set(found)
    assert query_terms(text)[0].exact


@pytest.mark.parametrize("text", ["C++", "C#"])
def test_languages_named_by_a_sign_are_not_the_letter(text: str) -> None:
    assert terms(text) == [text.lower()]


def test_sentence_marks_do_not_join() -> None:
    assert terms("It ends. Next") == ["it", "end", "next"]
    assert not any(term.exact for term in query_terms("It ends. Next, a well-known one."))


def test_chinese_is_stored_by_character_and_bigram_and_asked_by_bigram() -> None:
    assert terms("举头望明月") == [*"举头望明月", "举头", "头望", "望明", "明月"]
    assert asked("望明月") == ["望明", "明月"]
    assert asked("月") == ["月"]


def test_mixed_text_is_cut_where_the_script_changes() -> None:
    assert asked("错误码E1234-5怎么办") == ["错误", "误码", "e1234-5", "e1234", "1234", "5", "怎么", "么办"]


def test_stop_words_are_dropped_unless_they_are_all_there_is() -> None:
    assert asked("What is the name of the pool?") == ["pool"]
    assert asked("to be or not to be") == ["to", "be", "or", "not"]
    assert asked("Qdrant 的 API") == ["qdrant", "api"]


@pytest.mark.parametrize("text", ["", "  \n\t", "？！…", "\0", "😀", "---"])
def test_text_without_words_has_no_terms(text: str) -> None:
    assert terms(text) == []
    assert query_terms(text) == []
