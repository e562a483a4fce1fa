from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

import pytest

from slipstream.errors import DataError
from slipstream.ingest.decode import decode

SAMPLES = Path(__file__).parent.parent / "data" / "encodings"
MANIFEST = json.loads((SAMPLES / "manifest.json").read_text("utf-8"))
CHINESE = "如何开启自动扣款功能？请在设置页面选择“付款方式”，然后点选“自动扣款”。价格是 3.5 元。"
TRADITIONAL = "如何開啟自動扣款功能？請在設定頁面選擇「付款方式」，然後點選「自動扣款」。"
WESTERN = "Le café naïve coûte 5 €, à Besançon. Größe, señor!"


@pytest.mark.parametrize("entry", MANIFEST, ids=[entry["encoding"] for entry in MANIFEST])
def test_a_page_of_chinese_documentation_in_every_encoding(entry: dict[str, str | int]) -> None:
    decoded = decode((SAMPLES / str(entry["file"])).read_bytes())
    if entry["encoding"] == "utf8-truncated-midchar":
        assert decoded.warning is not None
        assert "middle of a character" in decoded.warning
        whole = decode((SAMPLES / str(MANIFEST[0]["file"])).read_bytes()).text
        assert whole.startswith(decoded.text)
    else:
        assert decoded.warning is None
        assert hashlib.sha256(decoded.text.encode()).hexdigest() == entry["text_sha256"]


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (CHINESE, "gbk"),
        (CHINESE, "gb18030"),
        (CHINESE, "utf-8"),
        (CHINESE, "utf-8-sig"),
        (CHINESE, "utf-16"),
        (CHINESE, "utf-16-le"),
        (CHINESE, "utf-16-be"),
        (CHINESE, "utf-32"),
        ("没有任何英文字母的一段中文，一共只有一句话。", "utf-16-le"),
        ("没有任何英文字母的一段中文，一共只有一句话。", "utf-16-be"),
        ("Plain ASCII, in wide characters.", "utf-16-be"),
        (TRADITIONAL, "big5"),
        (WESTERN, "cp1252"),
        ("Größe", "latin-1"),
        ("привет мир, как дела? Это русский текст для проверки.", "cp1251"),
        ("これは日本語の文章です。とても長い文章を書きます。", "shift_jis"),
    ],
)
def test_encodings_are_told_apart(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)).text == text


@pytest.mark.parametrize("encoding", ["gb18030", "cp950", "cp1252", "utf-8"])
def test_newlines_are_normalised(encoding: str) -> None:
    lines = {"gb18030": CHINESE, "cp950": TRADITIONAL}.get(encoding, WESTERN)
    assert decode(f"{lines}\r\n{lines}\r{lines}\n".encode(encoding)).text == f"{lines}\n{lines}\n{lines}\n"


def test_a_declared_encoding_counts_when_the_bytes_are_not_utf8() -> None:
    assert decode("мир".encode("koi8-r"), "koi8-r").text == "мир"
    assert decode("мир".encode(), "koi8-r").text == "мир"
    assert decode("Größe".encode("cp1252"), "no-such-encoding").text == "Größe"


def test_a_few_damaged_bytes_are_marked_not_fatal() -> None:
    decoded = decode((CHINESE * 20).encode() + b"\xff" + CHINESE.encode())
    assert decoded.text.count("\ufffd") == 1
    assert decoded.warning == "1 damaged characters were replaced by \ufffd"


def test_a_stray_nul_is_blanked() -> None:
    decoded = decode(b"one line of a log\x00and the next one")
    assert decoded.text == "one line of a log and the next one"
    assert decoded.warning is not None


@pytest.mark.parametrize("seed", range(20))
def test_binary_is_refused(seed: int) -> None:
    data = random.Random(seed).randbytes(5_000)
    with pytest.raises(DataError):
        decode(data)


def test_a_block_of_nuls_is_binary() -> None:
    with pytest.raises(DataError) as raised:
        decode(b"header" + b"\x00\x01\x02" * 500)
    assert raised.value.code == "binary"
