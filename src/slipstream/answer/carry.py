"""(topic, follow-up) → one stand-alone query: the new value takes its slot in the topic, else the subject is added."""

from __future__ import annotations

import re

from slipstream.answer import carry_en, carry_zh
from slipstream.answer.carried import Carried
from slipstream.answer.follow_up_en import MARKER_EN, content_words
from slipstream.answer.follow_up_zh import MARKER_ZH, content_characters
from slipstream.types import Language

_END = re.compile(r"[\s?？。.!！]+$")
_TYPED = (
    re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)(?:年)?"),
    re.compile(
        r"\b(?:January|February|March|April|May|June|July|August|September|October|November|December)\b|(?<!\d)1?\d月"
    ),
    re.compile(r"\bQ[1-4]\b|第[一二三四]季度|\b(?:first|second|third|fourth) quarter\b"),
    re.compile(r"(?<![\d.])v?\d+(?:\.\d+)+(?![\d.])"),
    re.compile(r"第[一二三四五六七八九十\d]+(?:个|种|款|项|条|点|步|章|节|名|位|级)?"),
    re.compile(r"\b(?:first|second|third|fourth|fifth|last)\b", re.IGNORECASE),
    re.compile(r"(?:周|星期)[一二三四五六日天]|\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\b"),
    re.compile(
        r"\b(?:install|uninstall|remove|delete|enable|disable|activate|deactivate|open|close|create|update|upgrade"
        r"|downgrade|start|stop|restart|configure|cancel|reset|register|import|export|download|upload|add|edit|renew)\b"
        r"|安装|卸载|删除|开启|关闭|启用|禁用|创建|更新|升级|降级|启动|停止|重启|配置|取消|重置|注册|导入|导出|下载|上传|添加"
        r"|修改|续费|退订|开通|申请|购买|部署|备份|恢复|绑定|解绑|激活|迁移",
        re.IGNORECASE,
    ),
)
"""Values of one kind: a new one in the follow-up replaces the old one in the topic."""


def carry(topic: str, follow_up: str, language: Language) -> Carried:
    """Both normalised; `language` is the follow-up's."""
    if language == "zh":
        rest = _END.sub("", MARKER_ZH.sub("", follow_up, count=1)).removesuffix("呢")
        return _typed(topic, rest) or carry_zh.replaced(topic, rest) or carry_zh.about(topic, follow_up, rest)
    rest = _END.sub("", MARKER_EN.sub("", follow_up, count=1))
    return _typed(topic, rest) or carry_en.replaced(topic, rest) or carry_en.about(topic, follow_up)


def _typed(topic: str, rest: str) -> Carried | None:
    for kind in _TYPED:
        old, new = kind.findall(topic), kind.findall(rest)
        if len(set(old)) != 1 or len(set(new)) != 1:
            continue
        left = kind.sub(" ", rest)
        text = kind.sub(lambda _: new[0], topic)  # noqa: B023 - used before the loop goes on
        if _adds_something(left):
            text = f"{text} {rest}"
        return Carried(text, f"{old[0]} gives way to {new[0]}", True)
    return None


def _adds_something(left: str) -> bool:
    return bool(content_words(left)) or len(re.sub(r"[^\u3400-\u9fff]", "", content_characters(left))) > 1
