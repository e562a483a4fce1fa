from __future__ import annotations

import io
import zipfile
from pathlib import Path

import docx
import pytest

from slipstream.errors import DataError
from slipstream.ingest.document import Document
from slipstream.ingest.loaders import load_bytes
from slipstream.ingest.loaders.pdf import load_pdf


def blocks(document: Document) -> list[tuple[str, str]]:
    return [(block.kind, document.text[block.start : block.end]) for block in document.blocks]


def word(*, image_only: bool = False) -> bytes:
    source = docx.Document()
    if not image_only:
        source.core_properties.title = "Handbuch"
        source.add_heading("Installation 安装", 1)
        source.add_paragraph("First paragraph. 第一段。")
        source.add_paragraph("one", style="List Bullet")
        source.add_paragraph("two", style="List Bullet")
        table = source.add_table(2, 2)
        table.cell(0, 0).text, table.cell(0, 1).text = "key", "value"
        table.cell(1, 0).merge(table.cell(1, 1)).text = "merged"
    out = io.BytesIO()
    source.save(out)
    return out.getvalue()


# --- Markdown, text ---


def test_markdown_blocks_are_spans_of_the_source() -> None:
    source = (
        "---\ntitle: The guide\ntags: [a, b]\n---\n# Set-up { #set-up }\n\nSome *text*\nin two lines.\n\n"
        "## Install `it` [now](x.md)\n\n```sh\n# not a heading\nrun it\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
        "- one\n- two\n"
    )
    document = load_bytes("guide.md", source.encode())
    assert document.text == source
    assert document.title == "The guide"
    assert document.metadata == {"tags": "a, b"}
    assert blocks(document) == [
        ("heading", "# Set-up { #set-up }"),
        ("text", "Some *text*\nin two lines."),
        ("heading", "## Install `it` [now](x.md)"),
        ("code", "```sh\n# not a heading\nrun it\n```"),
        ("table", "| a | b |\n|---|---|\n| 1 | 2 |"),
        ("text", "- one\n- two"),
    ]
    assert document.blocks[-1].headings == ("Set-up", "Install it now")
    assert document.blocks[1].headings == ("Set-up",)


def test_text_paragraphs() -> None:
    document = load_bytes("notes.txt", "one\ntwo\n\n \n三\r\n".encode())
    assert blocks(document) == [("text", "one\ntwo"), ("text", "三")]


# --- HTML ---

PAGE = """<!doctype html><html><head><meta charset="gb2312"><title> 手册 一 </title><style>p{}</style></head>
<body><script>var secret = "SECRET"</script><nav>Home | About</nav><main><h1>标题</h1><p>第一段
文字。<br>第二行</p><div>Bare <b>bold</b> text<p>para</p></div><ul><li>one</li><li><p>two</p></li></ul>
<pre><code>x = 1
  y = 2
</code></pre><table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2 &amp; 3</td></tr></table>
<table><tr><td><p>layout</p></td></tr></table></main><footer>imprint</footer></body></html>"""


def test_html_is_what_a_reader_sees() -> None:
    document = load_bytes("page.html", PAGE.encode("gb18030"))
    assert document.title == "手册 一"
    assert blocks(document) == [
        ("heading", "标题"),
        ("text", "第一段 文字。\n第二行"),
        ("text", "Bare bold text"),
        ("text", "para\n- one\n- two"),
        ("code", "x = 1\n  y = 2"),
        ("table", "A | B\n1 | 2 & 3"),
        ("text", "layout"),
    ]
    assert {block.headings for block in document.blocks} == {("标题",)}


def test_html_without_a_name_that_says_so() -> None:
    assert load_bytes("upload", b"<!DOCTYPE html><p>text").type == "html"


def test_html_nested_too_deep_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(DataError) as raised:
        load_bytes("deep.html", b"<div>" * 100_000)
    assert raised.value.code == "too_deep"


# --- DOCX ---


def test_docx_headings_lists_and_tables() -> None:
    document = load_bytes("manual.docx", word())
    assert document.title == "Handbuch"
    assert blocks(document) == [
        ("heading", "Installation 安装"),
        ("text", "First paragraph. 第一段。\n- one\n- two"),
        ("table", "key | value\nmerged"),
    ]


def test_a_docx_that_unpacks_to_too_much_is_refused() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * (65 << 20))
    with pytest.raises(DataError) as raised:
        load_bytes("bomb.docx", out.getvalue())
    assert raised.value.code == "too_large"


# --- PDF ---

SAMPLES = Path(__file__).parent.parent / "data" / "pdf"
PDF = (SAMPLES / "handbook.pdf").read_bytes()


def test_pdf_pages_bookmarks_and_broken_lines() -> None:
    document = load_bytes("handbook.pdf", PDF)
    assert blocks(document)[:3] == [
        ("text", "This is the first line of a paragraph that is wrapped by its margin and goes on until it ends."),
        ("text", "- a point"),
        ("text", "数据库连接池的默认大小是二十个连接，超过之后新的请求会排队等待空闲的连接，等待超过三十秒就会失败。"),
    ]
    assert [block.page for block in document.blocks] == [1, 1, 2, 3, 4, 5, 6, 7]
    assert document.blocks[0].headings == ("Intro",)
    assert document.blocks[2].headings == ("第二章",)
    assert "Handbook" not in document.text
    assert document.text.endswith("The surname is 𠮷田 here.")


def test_a_pdf_that_takes_too_long_is_given_up() -> None:
    with pytest.raises(DataError) as raised:
        load_pdf(SAMPLES / "handbook.pdf", max_seconds=0.0)
    assert raised.value.code == "too_slow"


# --- what is not for us, each with its reason ---

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(5_000)


@pytest.mark.parametrize(
    ("name", "data", "code", "words"),
    [
        ("a.txt", b"", "empty", "0 bytes"),
        ("a.pdf", b"", "empty", "0 bytes"),
        ("a.md", b" \n\t\n", "empty", "white space"),
        ("a.html", b"<p> <script>x</script></p>", "empty", "white space"),
        ("a.docx", word(image_only=True), "empty", "white space"),
        ("scan.pdf", (SAMPLES / "scan.pdf").read_bytes(), "no_text_layer", "OCR"),
        ("cut.pdf", (SAMPLES / "cut.pdf").read_bytes(), "truncated", "cut short"),
        ("secret.pdf", (SAMPLES / "encrypted.pdf").read_bytes(), "encrypted", "password"),
        ("bad.pdf", b"%PDF-1.4 nothing of the kind\n" * 50 + b"%%EOF", "damaged", "damaged"),
        ("report.pdf", OLE, "unsupported_format", ".doc"),
        ("report.doc", OLE, "unsupported_format", ".doc"),
        ("report.docx", OLE, "unsupported_format", "encrypted"),
        ("notes.txt", PDF, "wrong_format", "PDF"),
        ("notes.pdf", b"just text", "wrong_format", ".pdf"),
        ("a.zip", word(), "unsupported_format", "zip"),
        ("cut.docx", word()[:500], "damaged", "damaged"),
        ("photo.md", b"\x89PNG\r\n\x1a\n" + bytes(100), "unsupported_format", "PNG"),
        ("tool", b"\x7fELF" + bytes(100), "unsupported_format", "program"),
        ("blob.txt", bytes(range(256)) * 10, "binary", "binary"),
    ],
)
def test_each_is_refused_with_its_reason(name: str, data: bytes, code: str, words: str) -> None:
    with pytest.raises(DataError) as raised:
        load_bytes(name, data)
    assert raised.value.code == code
    assert words in raised.value.message
