"""Bytes of a text file → characters, whatever the encoding, or the reason why not."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass

import charset_normalizer

from slipstream.errors import DataError

_SAMPLE_BYTES = 65_536
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16: its mark begins with theirs
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_PLAIN = re.compile(r"[\t\n\r -~\xa0-\xff\u0400-\u04ff\u2010-\u2027\u3040-\u30ff\uac00-\ud7af]")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_COMMON = frozenset(
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多"
    "经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情明性知"
    "全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月话合回特代内信表化老给世位次度门"
    "任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量再感建务做接"
    "這個們來為國說時會對於著過發後裡還進麼學現當沒動開實樣經種從軍無與長機關點業將兩間問應戰頭體見產話給門東聲員論處義幾認條氣"
    "請檔設資料檢視變數電腦網路號碼連結選單預參顯執碟權您該將則屬僅並須據於"
    "请文件参数函据类型值据返回串码示例默认选项启配置依赖路径请求响应模型字段声明库版本运安装"
)
"""Frequent characters of running Chinese, both scripts: right decodings are full of them, wrong ones are not."""
_WESTERN = frozenset(
    "áàâäãåæçéèêëíìîïñóòôöõøœúùûüýÿßÁÀÂÄÃÅÆÇÉÈÊËÍÌÎÏÑÓÒÔÖÕØŒÚÙÛÜÝšžŠŽ‘’“”–—…€£©®°«»§·¿¡™•½¼¾±²³µ×ºª´¨\xa0"
)
_PLAUSIBLE = 0.5
_RARER = 0.15
"""Chinese in UTF-16 without a mark, any ASCII or 一 leaves no NUL to show for it: it must win clearly."""


@dataclass(frozen=True, slots=True)
class Decoded:
    text: str
    """Newlines are \\n only; no byte order mark."""
    encoding: str
    warning: str | None = None
    """What was lost or guessed, for the report."""


def decode(data: bytes, declared: str | None = None) -> Decoded:
    """Decodes a text file.

    Order: byte order mark, UTF-16 as NULs give it away, UTF-8, the encoding the file declares, then
    the encoding under which the bytes read most like language. Raises DataError when nothing does.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _finish(data[len(mark) :], encoding)
    if b"\x00" in data[:_SAMPLE_BYTES] and (wide := _utf16(data, _wide_likeness)):
        return _finish(data, wide)
    if _reads(data, "utf-8"):
        return _finish(data, "utf-8")
    if declared is not None and _reads(data, declared):
        return _finish(data, declared)
    return _finish(data, _legacy(data))


def _finish(data: bytes, encoding: str) -> Decoded:
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    warnings: list[str] = []
    try:
        text = decoder.decode(data)
        if decoder.getstate()[0]:
            warnings.append("the file ends in the middle of a character; the incomplete one was left out")
    except UnicodeDecodeError:
        text = data.decode(encoding, "replace")
        warnings.append(f"{text.count(chr(0xFFFD))} damaged characters were replaced by \ufffd")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    controls = len(_CONTROL.findall(text))
    if controls > max(2, len(text) // 200) and controls * 50 > len(text):
        raise DataError("The file is binary, not text.", code="binary")
    if "\x00" in text:
        warnings.append(f"{text.count(chr(0))} NUL characters were replaced by blanks")
        text = text.replace("\x00", " ")
    return Decoded(text, encoding, "; ".join(warnings) or None)


def _reads(data: bytes, encoding: str) -> bool:
    """Whether the bytes are valid, but for a last character cut short or a few damaged ones."""
    try:
        codecs.getincrementaldecoder(encoding)("strict").decode(data)
    except UnicodeDecodeError:
        sample = data.decode(encoding, "replace")
        damaged = sample.count("\ufffd")
        good = sum(not character.isascii() for character in sample[:_SAMPLE_BYTES]) - damaged
        return encoding == "utf-8" and good >= 20 * damaged
    except LookupError:
        return False
    return True


def _utf16(data: bytes, likeness: Callable[[str], float]) -> str | None:
    """The byte order under which the bytes make sense as UTF-16, if one does."""
    sample = data[: min(len(data), _SAMPLE_BYTES) & ~1]
    scores = {name: likeness(_try(sample, name)) for name in ("utf-16-le", "utf-16-be")}
    best = max(scores, key=lambda name: scores[name])
    return best if scores[best] >= _PLAUSIBLE else None


def _legacy(data: bytes) -> str:
    """The encoding under which the bytes read most like language.

    Raises DataError when none does.
    """
    sample = data[:_SAMPLE_BYTES]
    if len(_CONTROL.findall(sample.decode("latin-1"))) * 50 > len(sample):
        raise DataError("The file is binary, not text.", code="binary")
    scores = {name: _chinese_likeness(_try(sample, name)) for name in ("gb18030", "cp950", "big5hkscs")}
    scores["cp1252"] = _western_likeness(_try(sample, "cp1252"))
    if len(data) % 2 == 0 and (wide := _utf16(data, _chinese_likeness)):
        scores[wide] = _chinese_likeness(_try(sample, wide)) - _RARER
    best = max(scores, key=lambda name: scores[name])
    if scores[best] >= _PLAUSIBLE:
        return best
    guess = charset_normalizer.from_bytes(sample).best()
    if guess is not None and guess.encoding not in {"utf_16", "utf_32"} and _reads(data, guess.encoding):
        return guess.encoding
    raise DataError(
        "The text encoding was not recognised. Save the file as UTF-8 and ingest it again.", code="unknown_encoding"
    )


def _try(sample: bytes, encoding: str) -> str:
    """The sample decoded, a cut last character ignored; empty when the bytes are not valid."""
    try:
        return codecs.getincrementaldecoder(encoding)("strict").decode(sample)
    except UnicodeDecodeError:
        return ""


def _wide_likeness(text: str) -> float:
    """0…1: how much of the text is plain alphabetic writing, and how likely the rest is Chinese."""
    if not text:
        return 0.0
    plain = len(_PLAIN.findall(text)) / len(text)
    controls = len(_CONTROL.findall(text)) / len(text)
    return plain + (1 - plain) * _chinese_likeness(text) - 20 * controls


def _chinese_likeness(text: str) -> float:
    """0…1 from how common the Han characters are; 0 without any.

    Half of running Chinese is made of a few hundred characters, and nearly all of it of the 3,755 in
    the first level of GB 2312 or the 5,401 of Big5.
    """
    han = _HAN.findall(text)
    if not han:
        return 0.0
    foreign = sum(not c.isascii() for c in text)
    frequent = sum(c in _COMMON for c in han) / len(han)
    first_level = max(
        sum(_in_first_level(c, "gb2312", 0xB0, 0xD7) for c in han),
        sum(_in_first_level(c, "big5", 0xA4, 0xC6) for c in han),
    ) / len(han)
    return min(1.0, 0.6 * first_level + min(0.4, frequent)) * min(1.0, 0.3 + len(han) / foreign)


def _in_first_level(character: str, encoding: str, low: int, high: int) -> bool:
    encoded = character.encode(encoding, "ignore")
    return bool(encoded) and low <= encoded[0] <= high


def _western_likeness(text: str) -> float:
    """0…1: accented letters stand alone among ASCII ones, seldom in pairs; longer runs are another encoding misread."""
    foreign = [c for c in text if not c.isascii()]
    if not foreign:
        return 0.0
    common = sum(c in _WESTERN for c in foreign) / len(foreign)
    runs = [len(run) for run in re.findall(r"[^\x00-\x7f]+", text)]
    alone = (runs.count(1) + 0.6 * 2 * runs.count(2)) / len(foreign)
    return common * alone
