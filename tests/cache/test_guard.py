"""Questions that must not share an answer, and some that should, in both languages."""

from __future__ import annotations

import pytest

from slipstream.cache.guard import compare
from slipstream.text.language import language_of

DIFFERENT = [
    # who and whom
    ("Does plan A include plan B?", "Does plan B include plan A?"),
    ("Does the policy cover the rider?", "Does the rider cover the policy?"),
    ("套餐A包含套餐B吗？", "套餐B包含套餐A吗？"),
    ("谁打败了法国队？", "法国队打败了谁？"),
    ("Who beat France?", "Who did France beat?"),
    ("How many days from Oslo to Rome?", "How many days from Rome to Oslo?"),
    ("从北京到上海要多久？", "从上海到北京要多久？"),
    ("What does Anna owe Bert?", "What does Bert owe Anna?"),
    ("玛丽把国歌翻译成什么语言？", "国歌把玛丽翻译成什么语言？"),
    # polarity
    ("怎么开启自动扣款", "怎么关闭自动扣款"),
    ("turn on dark mode", "turn off dark mode"),
    ("How do I enable two-factor login?", "How do I disable two-factor login?"),
    ("Which plan is the most expensive?", "Which plan is the least expensive?"),
    ("最大的优点是什么？", "最大的缺点是什么？"),
    ("公司什么时候成立？", "公司什么时候解散？"),
    ("Who was the first president?", "Who was the last president?"),
    ("Is the tax higher than before?", "Is the tax lower than before?"),
    # negation
    ("Which fees are refundable?", "Which fees are not refundable?"),
    ("Can I cancel?", "Can't I cancel?"),
    ("哪些费用可以退？", "哪些费用不可以退？"),
    ("谁有权限？", "谁没有权限？"),
    ("Which rooms have Wi-Fi?", "Which rooms have no Wi-Fi?"),
    # numbers, dates, versions, units
    ("2023年营收", "2024年营收"),
    ("price of the iPhone 15", "price of the iPhone 16"),
    ("What changed in version 2.3.1?", "What changed in version 2.3.2?"),
    ("三年级有多少学生？", "四年级有多少学生？"),
    ("What is open in March?", "What is open in May?"),
    ("3月有什么活动？", "5月有什么活动？"),
    ("How far is 5 miles by bus?", "How far is 5 km by bus?"),
    ("What is the limit for two adults?", "What is the limit for three adults?"),
    ("第二章讲什么？", "第三章讲什么？"),
    ("What does error E1234 mean?", "What does error E1235 mean?"),
    # names
    ("What is the capital of Austria?", "What is the capital of Australia?"),
    ("《红楼梦》的作者是谁？", "《西游记》的作者是谁？"),
    ("Redis怎么配置？", "Kafka怎么配置？"),
    # what is asked
    ("When did the museum open?", "Where did the museum open?"),
    ("他什么时候去世？", "他在哪里去世？"),
    ("How many people work there?", "Who works there?"),
    ("为什么要退款？", "怎么退款？"),
]

SAME = [
    ("Who founded the company?", "Who was the founder who set up the company?"),
    ("When did Tesla die?", "In what year did Tesla die?"),
    ("How large is the school's endowment?", "What is the size of the school's endowment?"),
    ("In Hinduism, is the focus on mentorship high or low?", "Is the focus on mentorship high or low in Hinduism?"),
    ("What group can amend the Victorian constitution?", "Which group can amend the constitution of Victoria?"),
    ("无锡市辅仁中学创办于哪一年？", "无锡市辅仁中学是哪一年创办的？"),
    ("刘备称汉中王是什么时候？", "刘备在什么时候称汉中王？"),
    ("书签有什么作用？", "书签的作用是什么？"),
    ("谁设计了该教堂？", "该教堂是谁设计的？"),
    ("特斯拉的专利是什么时候恢复的？", "特斯拉的专利在何时恢复？"),
    ("怎么开启自动扣款？", "如何打开自动扣款？"),
    ("1983年植村秀在东京开了什么店？", "植村秀1983年在东京开了什么店？"),
]


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_questions_that_differ_in_form_are_told_apart(first: str, second: str) -> None:
    for one, other in ((first, second), (second, first)):
        verdict = compare(one, other, language_of(one))
        assert not verdict.passed, f"{one} / {other}: {verdict}"
        assert verdict.reason


@pytest.mark.parametrize(("first", "second"), SAME)
def test_true_paraphrases_pass_the_guard(first: str, second: str) -> None:
    for one, other in ((first, second), (second, first)):
        verdict = compare(one, other, language_of(one))
        assert verdict.passed, f"{one} / {other}: {verdict.reason}"


@pytest.mark.parametrize("text", ["", "?", "的", "a", "《》", "第", "1" * 200, "\n\t", "😀", "A" * 2_000])
def test_any_text_can_be_compared(text: str) -> None:
    assert compare(text, text, "en").passed
    assert compare(text, text, "zh").passed


def test_words_without_a_counterpart_are_pointed_at() -> None:
    verdict = compare("Where do seals sleep?", "Where do seals rest?", "en")
    assert verdict.passed
    assert not verdict.equal
    assert verdict.only_first == ((15, 20),)
    assert verdict.only_second == ((15, 19),)
