"""Whether a Chinese question can be understood without its history."""

from __future__ import annotations

import re

from slipstream.answer.dependence import STANDS_ALONE, Dependence

MARKER_ZH = re.compile(
    r"^(?:好的?|嗯|谢谢|对了|所以|但是?|不过)?[，,]?"
    r"(?:那么?(?!个|些|种|里|儿|边|样|天|时|位|款|项|条)|而|还有|另外|然后|以及|并且|同理|换成|改成|如果是|要是|至于|再问一下|也)?[，,]?"
)
_TIME_ZH = re.compile(
    r"这(?:个)?(?:月|周|星期|季度|几天|学期|一?年)|那时候?|从此|因此|此外|此后|如此|彼此|其他|其它|其中|其实|其余|尤其|应该|吉他|他人|该怎么|该如何|该不该|这样一来|与其|极其"
)
_PERSON_ZH = re.compile(r"[他她]们?")
_PRONOUN_ZH = re.compile(
    r"它们?|这(?:个|些|种|样|里|儿|项|款|份|条|篇|次|家|位|套|两)?|那(?:个|些|种|样|里|儿|边|项|款|份|条|篇|次|家|位|套)"
    r"|其|该|此|上述|上面|以上|刚才|前面(?:说|提|讲)|之前(?:说|提|讲)"
)
ORDINAL_ZH = re.compile(
    r"前者|后者|另一(?:个|种|款|项)|另外(?:一个|那个|一种|几个|的)|其余的?|剩下的?|最后一(?:个|种|条|项)"
    r"|第[一二三四五六七八九十\d]+(?:个|种|款|项|条|点|步|位|名)?(?=[呢是的怎如有多为能吗要最可会需支在几什哪，？?]|$)|同样"
)
_REQUEST_ZH = re.compile(
    r"^(?:为什么|为何|怎么会|怎么说|怎么办|真的吗?|然后呢|还有(?:呢|吗|别的吗|其他的吗|什么)|继续|详细(?:一点|说说|讲讲)|举个?例子?|能举例吗"
    r"|能?(?:再)?(?:详细|具体)(?:说明|说说|讲讲|解释)?(?:一下|一点)?吗?|比如(?:呢|说)?|请?展开(?:说说|讲讲)?|多少|什么时候|在哪里?|谁|怎么做|更多)[呢吗？?。！!]*$"
)
_ASKING_ZH = re.compile(
    r"请问|为什么|为何|怎么样|怎么办|怎么|怎样|如何|多少|多久|多长|多大|多高|什么时候|什么|哪些|哪个|哪里|哪儿|哪|几|谁|是否|能否|可以|能不能"
    r"|[是有吗呢吧啊了的得要会能在和与要需做个，。？！、,.?!\s]"
)
_WITH_QUESTION_ZH = re.compile(
    r"为什么|为何|怎|如何|多少|多久|多长|多大|多高|什么|哪|几|谁|是否|能否|吗|能不能|可不可以"
)
_OWN_SUBJECT_ZH = re.compile(r"我们?|咱|公司|员工|本[^来身]|[A-Za-z0-9]{2,}")
_SHORT_ZH = 6
_OWN_CONTENT_ZH = 6
_BRIDGED_ZH = 3


def content_characters(text: str) -> str:
    """What is left of a Chinese question without the words of asking."""
    return _ASKING_ZH.sub("", text)


def chinese(text: str) -> Dependence:
    if _REQUEST_ZH.match(text):
        return Dependence("request")
    bare = _TIME_ZH.sub("。", text)
    if (found := _PERSON_ZH.search(bare)) and not _named_before_zh(bare, found.start()):
        return Dependence("person")
    rest = MARKER_ZH.sub("", bare, count=1)
    own = content_characters(rest)
    if ORDINAL_ZH.search(rest):
        return Dependence("ordinal")
    if (found := _PRONOUN_ZH.search(rest)) and not _named_before_zh(rest, found.start()):
        return Dependence("pronoun")
    asks = _WITH_QUESTION_ZH.search(rest) is not None
    if rest != bare and (len(own) <= _OWN_CONTENT_ZH or not asks):
        return Dependence("ellipsis")
    if re.search(r"呢[?？]?$", rest) and not asks:
        return Dependence("ellipsis")
    if not asks and len(rest.rstrip("?？。!！")) <= _SHORT_ZH:
        return Dependence("short", certain=False)
    if len(own) <= _BRIDGED_ZH and not _OWN_SUBJECT_ZH.search(rest):
        return Dependence("bridging", certain=False)
    return STANDS_ALONE


def _named_before_zh(text: str, at: int) -> bool:
    clauses = re.split(r"[，,；;。？]", text[:at])
    return len(clauses) > 1 and any(len(content_characters(clause)) >= 3 for clause in clauses[:-1])
