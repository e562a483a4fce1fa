"""Chinese: a value of the follow-up takes its slot in the topic, or the topic's subject goes before it."""

from __future__ import annotations

import re

from slipstream.answer.carried import Carried

_PLACE = re.compile(r"^在?(.{1,12}?)(上面?|中|里|下|环境|系统|平台)?$")
_IN_TOPIC = re.compile(
    r"(?:在|用|给|为|对|从)([^在用给为对从的]{1,12}?)"
    r"(?=上|中|里|下|环境|系统|平台|安装|部署|运行|使用|怎|如何|配置)"
)
_PREDICATE = (
    r"有多|有什么|有哪|有几|是什么|是谁|是哪|是多|在哪"
    r"|怎么|如何|为什么|什么时候|能|可以|会|支持|需|多少|多久|多长|最多|几"
)
_OWNER = re.compile(rf"^((?:请问)?)([^如怎什哪为多，。？]{{1,10}}?)(?=的|{_PREDICATE})")
"""The thing at the head of a question: 法国 in 法国的首都是哪里."""
_ABOUT = re.compile(rf"^(?:请问|介绍一下|请介绍|说说|讲讲)?([^如怎什哪为多，。？]{{2,14}}?)(?={_PREDICATE}|[？?。]?$)")
"""All that it is about: 法国的首都."""
_ATTRIBUTE = re.compile(
    r"(?:价|价格|费用?|期|期限|率|量|容量|度|数|额|时间|地点|地址|电话|原因|条件|流程|步骤|限制|上限|方法|方式|要求|标准|规定"
    r"|影响|结果|作者|负责人|优点|缺点|尺寸|颜色|面积|人口|语言|重量|寿命|功能|未.{1,4}的)$"
)
"""Nouns that name a property: the follow-up asks about another side of the same thing, not about another thing."""
_PRONOUN = re.compile(
    r"[它其该此](?:们|的)?|[这那](?:个|些|种|样|里|项|款|份|条|篇|次|家|位|套|两)?[^，。？怎如是有能会]{0,2}?"
)


def replaced(topic: str, rest: str) -> Carried | None:
    """The topic with the follow-up's place or thing in it; None when it has no such slot."""
    if not _ATTRIBUTE.search(rest):
        rest = rest.removesuffix("的")
    value = _PLACE.match(rest)
    if value is None or not _is_value(value[1]):
        return None
    if rest.startswith("在") or value[2]:
        if found := _IN_TOPIC.search(topic):
            return Carried(
                f"{topic[: found.start(1)]}{value[1]}{topic[found.end(1) :]}", f"{found[1]}→{value[1]}", True
            )
        return None
    if (subject := _OWNER.match(topic)) and not _ATTRIBUTE.search(rest):
        text = f"{subject[1]}{rest}{topic[subject.end() :]}"
        return Carried(text, f"{subject[2]}→{rest}", True)
    return None


def _is_value(text: str) -> bool:
    """A name or a noun, not a clause with a question in it."""
    return not re.search(r"怎|如何|什么|多|为|哪|吗|谁|几|是|有|它|这|那|他|她|的$", text)


def about(topic: str, follow_up: str, rest: str) -> Carried:
    """What the topic is about, and the follow-up; the pronoun gives way to it."""
    subject = _ABOUT.match(topic)
    if subject is None:
        return Carried(f"{topic} {follow_up}", "the topic is carried over", False)
    named = _PRONOUN.sub(lambda _: subject[1], rest, count=1)
    text = named if named != rest else f"{subject[1]}{rest}"
    return Carried(text, f"it is about {subject[1]}", False)
