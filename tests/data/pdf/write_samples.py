"""Writes the PDF samples beside it: `python tests/data/pdf/write_samples.py`."""

from __future__ import annotations

from pathlib import Path

HANDBOOK = [
    "Handbook 1\nThis is the first line of a paragraph that is wrapped by its mar-\n"
    "gin and goes on until it ends.\n- a point",
    "Handbook 2\n数据库连接池的默认大小是二十个连接，超过之后新的请求会排队等待空闲的连\n接，等待超过三十秒就会失败。",
    *(f"Handbook {page}\nPage {page} says something else." for page in range(3, 7)),
    "Handbook 7\nThe surname is 𠮷田 here.",
]
ENCRYPT = (
    b"/Root 1 0 R /ID [<00112233445566778899aabbccddeeff> <00112233445566778899aabbccddeeff>] /Encrypt << "
    b"/Filter /Standard /V 1 /R 2 /P -4 /O <" + b"41" * 32 + b"> /U <" + b"42" * 32 + b"> >>"
)


def main() -> None:
    handbook = write_pdf(HANDBOOK, bookmarks={"Intro": 0, "第二章": 1})
    samples = {
        "handbook.pdf": handbook,
        "scan.pdf": write_pdf(["x"] * 3, image_only=True),
        "cut.pdf": handbook[: len(handbook) // 2],
        "encrypted.pdf": handbook.replace(b"/Root 1 0 R", ENCRYPT),
    }
    for name, data in samples.items():
        Path(__file__).with_name(name).write_bytes(data)


def write_pdf(pages: list[str], *, image_only: bool = False, bookmarks: dict[str, int] | None = None) -> bytes:
    """A PDF with one line of text per line of each page, any script; or with a grey box per page instead."""
    characters = sorted(set("".join(pages)) - {"\n"})
    codes = {character: index + 1 for index, character in enumerate(characters)}
    objects: list[bytes] = [b"", b""]  # catalogue and page tree come last, numbers 1 and 2 are theirs
    objects.append(_stream(_to_unicode(codes)))
    objects.append(
        b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Plain /DW 1000 "
        b"/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>"
    )
    objects.append(
        b"<< /Type /Font /Subtype /Type0 /BaseFont /Plain /Encoding /Identity-H "
        b"/DescendantFonts [4 0 R] /ToUnicode 3 0 R >>"
    )
    kids: list[int] = []
    for page in pages:
        content = b"0.5 g 72 72 200 200 re f" if image_only else _lines(page, codes)
        objects.append(_stream(content))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 842] /Resources << /Font << /F 5 0 R >> >> "
            b"/Contents %d 0 R >>" % len(objects)
        )
        kids.append(len(objects))
    outline = _outline(objects, bookmarks or {}, kids)
    objects[0] = b"<< /Type /Catalog /Pages 2 0 R %s >>" % outline
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), b" ".join(b"%d 0 R" % kid for kid in kids))
    return _file(objects)


def _lines(page: str, codes: dict[str, int]) -> bytes:
    shown = [b"<%s> Tj T*" % "".join(f"{codes[c]:04x}" for c in line).encode() for line in page.split("\n")]
    return b"BT /F 10 Tf 12 TL 40 800 Td\n" + b"\n".join(shown) + b"\nET"


def _to_unicode(codes: dict[str, int]) -> bytes:
    rows = [f"<{code:04x}> <{character.encode('utf-16-be').hex()}>" for character, code in codes.items()]
    blocks = [rows[at : at + 100] for at in range(0, len(rows), 100)]
    body = "\n".join(f"{len(block)} beginbfchar\n" + "\n".join(block) + "\nendbfchar" for block in blocks)
    return (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /U def /CMapType 2 def\n"
        f"1 begincodespacerange <0000> <ffff> endcodespacerange\n{body}\nendcmap end end"
    ).encode()


def _outline(objects: list[bytes], bookmarks: dict[str, int], kids: list[int]) -> bytes:
    if not bookmarks:
        return b""
    root = len(objects) + 1
    objects.append(b"<< /First %d 0 R /Last %d 0 R >>" % (root + 1, root + len(bookmarks)))
    for at, (title, page) in enumerate(bookmarks.items(), root + 1):
        following = b"/Next %d 0 R" % (at + 1) if at < root + len(bookmarks) else b""
        heading = b"<feff%s>" % title.encode("utf-16-be").hex().encode()
        objects.append(
            b"<< /Title %s /Parent %d 0 R /Dest [%d 0 R /Fit] %s >>" % (heading, root, kids[page], following)
        )
    return b"/Outlines %d 0 R" % root


def _stream(content: bytes) -> bytes:
    return b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content)


def _file(objects: list[bytes]) -> bytes:
    out = bytearray(b"%PDF-1.7\n")
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)


if __name__ == "__main__":
    main()
