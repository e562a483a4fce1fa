"""Hard negatives by code: questions of the shipped sets changed in one entity, number, date, "
"negation or direction."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from slipstream.bench.datasets import EvaluationSet, shipped
from slipstream.text.language import language_of

Change: TypeAlias = Literal["entity", "number", "date", "negation", "direction", "order"]
SETS = ("xquad_en", "xquad_zh", "cmrc2018_dev")
"""One English, two Chinese."""
CHANGES: tuple[Change, ...] = ("entity", "number", "date", "negation", "direction", "order")


@dataclass(frozen=True, slots=True)
class Negative:
    """Two questions that look alike and ask for different things."""

    set_name: str
    item: int
    question: str
    changed: str
    change: Change
    language: Literal["en", "zh"]


_OPPOSITES_EN = (
    "before after|first last|largest smallest|highest lowest|most least|more fewer|earliest latest|oldest newest|"
    "increase decrease|increased decreased|begin end|began ended|start stop|north south|northern southern|east west|"
    "eastern western|longest shortest|major minor|best worst|won lost|win lose|above below|maximum minimum|"
    "inside outside|opened closed|public private|positive negative|higher lower|greater smaller|upper lower|"
    "support oppose|supported opposed|accept reject|with without|minimum maximum|left right|early late|male female|"
    "allowed forbidden|strongest weakest|richest poorest|arrive leave|buy sell|older younger|longer shorter|"
    "successful unsuccessful|legal illegal|cause prevent|caused prevented|built destroyed|rise fall|faster slower"
)
_OPPOSITES_ZH = (
    "最大 最小|最高 最低|最多 最少|最早 最晚|最长 最短|开始 结束|增加 减少|之前 之后|以前 以后|第一 最后|首次 最后一次|"
    "东部 西部|南部 北部|东 西|南 北|主要 次要|最强 最弱|高于 低于|大于 小于|多于 少于|支持 反对|成功 失败|开启 关闭|"
    "打开 关闭|买 卖|上升 下降|内部 外部|优点 缺点|出生 去世|击败 输给|接受 拒绝|允许 禁止|"
    "公立 私立|父亲 母亲|儿子 女儿|"
    "男 女|左 右|进口 出口|建立 解散|成立 解散|加入 退出|长 短|上游 下游|早期 晚期|最古老 最年轻|最快 最慢|幼鱼 成鱼"
)
_NUMBER = re.compile(r"(?<![\w.])\d{1,3}(?:,\d{3})+(?![\w])|(?<![\w.,])\d+(?:\.\d+)?(?![\w.]*\d)", re.ASCII)
_YEAR = re.compile(r"(?<!\d)(?:1[0-9]|20)\d\d(?!\d)")
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_MONTH = re.compile(rf"\b(?:{'|'.join(_MONTHS)})\b|(?<!\d)(?:1[0-2]|[1-9])(?=月)")
_ENTITY_EN = re.compile(r"(?<=[a-z,'’] )[A-Z][\w'’.-]+(?: (?:of |the |de )?[A-Z][\w'’.-]+)*")
_ENTITY_ZH = re.compile(
    r"(?<=[《「“\"])[^》」”\"]{2,16}(?=[》」”\"])|[A-Za-z][A-Za-z0-9.-]{2,}(?: [A-Z][A-Za-z0-9.-]+)*"
)
_NEGATE_EN = (
    (re.compile(r"\b(is|are|was|were|can|could|did|does|do|should|would|will|has|have|had|must)\b(?= )"), r"\1 not"),
)
_NEGATE_ZH = (
    (re.compile(r"(?<![不没])可以"), "不可以"),
    (re.compile(r"(?<![没])有(?=[哪什多几])"), "没有"),
    (re.compile(r"(?<![不没])能(?=[够在被])"), "不能"),
    (re.compile(r"(?<![不没])会"), "不会"),
    (re.compile(r"(?<![不没])被"), "没有被"),
    (re.compile(r"(?<![不没])包括"), "不包括"),
    (re.compile(r"(?<![不没])属于"), "不属于"),
    (re.compile(r"(?<![不没])是(?=[由在什哪谁])"), "不是"),
    (re.compile(r"(?<=[一-鿿])导致"), "没有导致"),
)
_UN_NEGATE = ((re.compile(r"\b(n't|not|never|no)\b ?"), ""), (re.compile(r"不(?!同|仅|断|明|良|是)|没有?"), ""))


def hard_negatives(count: int, seed: int, keep: Callable[[int], bool] = lambda _: True) -> list[Negative]:
    """`count` of them, half Chinese, the changes in turn as far as the questions allow; `keep` takes item numbers."""
    rng = random.Random(seed)
    sets = [shipped(name) for name in SETS]
    english = _by_change(sets[:1], "en", rng, keep)
    chinese = _by_change(sets[1:], "zh", rng, keep)
    return [*_in_turn(english, count - count // 2), *_in_turn(chinese, count // 2)]


def _in_turn(pools: Sequence[list[Negative]], count: int) -> list[Negative]:
    taken: list[Negative] = []
    while len(taken) < count and any(pools):
        for pool in pools:
            if pool and len(taken) < count:
                taken.append(pool.pop())
    return taken


def _by_change(
    sets: Iterable[EvaluationSet], language: Literal["en", "zh"], rng: random.Random, keep: Callable[[int], bool]
) -> list[list[Negative]]:
    pools: dict[Change, list[Negative]] = {change: [] for change in CHANGES}
    for data in sets:
        maker = _Maker(data, language, rng)
        left_out = {item.question.strip() for index, item in enumerate(data.items) if not keep(index)}
        for index, item in enumerate(data.items):
            question = item.question.strip()  # some are asked of several passages
            if question in left_out or language_of(question) != language:
                continue
            for change in CHANGES:
                changed = maker.change(question, change, next(iter(item.relevant)))
                if changed is not None and changed != question:
                    pools[change].append(Negative(data.name, index, question, changed, change, language))
    for pool in pools.values():
        rng.shuffle(pool)
    return list(pools.values())


class _Maker:
    """Changes one thing in a question of one set."""

    def __init__(self, data: EvaluationSet, language: Literal["en", "zh"], rng: random.Random) -> None:
        self._rng = rng
        self._english = language == "en"
        self._opposites = _pairs(_OPPOSITES_EN if self._english else _OPPOSITES_ZH)
        self._answers = [
            [a for item in data.items if index in item.relevant for a in item.answers[:1] if _is_name(a, language)]
            for index in range(len(data.passages))
        ]
        self._names = sorted({name for names in self._answers for name in names})

    def change(self, question: str, change: Change, passage: int) -> str | None:
        return {
            "entity": lambda: self._entity(question, passage),
            "number": lambda: self._number(question),
            "date": lambda: self._date(question),
            "negation": lambda: self._negation(question),
            "direction": lambda: self._direction(question),
            "order": lambda: self._order(question, passage),
        }[change]()

    def _entities(self, question: str, passage: int) -> list[str]:
        pattern = _ENTITY_EN if self._english else _ENTITY_ZH
        named = [match.group() for match in pattern.finditer(question)]
        return named + [a for a in self._answers[passage] if a in question and a not in named]

    def _entity(self, question: str, passage: int) -> str | None:
        named = self._entities(question, passage)
        if not named:
            return None
        old = self._rng.choice(named)
        near = [a for a in self._answers[passage] if a not in question and old not in a]
        pool = near or [n for n in self._rng.sample(self._names, 40) if n not in question and old not in n]
        pool.sort(key=lambda name: abs(len(name) - len(old)))
        return question.replace(old, pool[0], 1) if pool else None

    def _number(self, question: str) -> str | None:
        found = [m for m in _NUMBER.finditer(question) if not _YEAR.fullmatch(m.group())]
        return self._replaced(question, found, self._other_number)

    def _date(self, question: str) -> str | None:
        return self._replaced(question, [*_YEAR.finditer(question), *_MONTH.finditer(question)], self._other_date)

    def _replaced(self, question: str, found: Sequence[re.Match[str]], other: Callable[[str], str]) -> str | None:
        if not found:
            return None
        match = self._rng.choice(found)
        return question[: match.start()] + other(match.group()) + question[match.end() :]

    def _other_number(self, text: str) -> str:
        plain = text.replace(",", "")
        if "." in plain:
            return f"{float(plain) + self._rng.choice((0.1, 1, 10)):g}"
        return str(int(plain) + self._rng.choice((1, 2, 10)))

    def _other_date(self, text: str) -> str:
        if text in _MONTHS:
            return self._rng.choice([month for month in _MONTHS if month != text])
        if len(text) < 4:
            return str(int(text) % 12 + 1)
        return str(int(text) + self._rng.choice((-10, -1, 1, 2, 10)))

    def _negation(self, question: str) -> str | None:
        removed = _UN_NEGATE[0 if self._english else 1]
        if removed[0].search(question):
            return removed[0].sub(removed[1], question, count=1)
        for pattern, put in _NEGATE_EN if self._english else _NEGATE_ZH:
            if pattern.search(question):
                return pattern.sub(put, question, count=1)
        return None

    def _direction(self, question: str) -> str | None:
        for one, other in self._rng.sample(self._opposites, len(self._opposites)):
            pattern = rf"\b{one}\b" if self._english else re.escape(one)
            if re.search(pattern, question):
                return re.sub(pattern, other, question, count=1)
        return None

    def _order(self, question: str, passage: int) -> str | None:
        """Two names in one question change places."""
        named = [n for n in dict.fromkeys(self._entities(question, passage)) if question.count(n) == 1]
        apart = [(a, b) for a in named for b in named if a < b and a not in b and b not in a]
        if not apart:
            return None
        one, other = self._rng.choice(apart)
        either = f"(?:{re.escape(one)}|{re.escape(other)})"
        listed = f"{either}(?: and | or |, |、|和|与|及|或){either}"
        if re.search(listed, question):
            return None
        return question.replace(one, "\0").replace(other, one).replace("\0", other)


def _pairs(listed: str) -> list[tuple[str, str]]:
    pairs = [pair.split() for pair in listed.split("|")]
    return [(a, b) for a, b in pairs] + [(b, a) for a, b in pairs]


def _is_name(answer: str, language: str) -> bool:
    if language == "en":
        return bool(re.fullmatch(r"[A-Z][\w'’.-]+(?: [A-Z][\w'’.-]+){0,3}", answer))
    return bool(re.fullmatch(r"[一-鿿·•]{2,7}", answer))
