from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pypdfium2
import pytest

CHILD = Path(__file__).with_name("bounds_child.py")
HANDBOOK = Path(__file__).parent.parent / "data" / "pdf" / "handbook.pdf"


def ingest(tmp_path: Path, root: Path) -> dict[str, Any]:
    data = tmp_path / f"data-{root.name}"
    done = subprocess.run([sys.executable, str(CHILD), str(data), str(root)], check=True, capture_output=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def write_notes(root: Path, count: int) -> Path:
    for n in range(count):
        path = root / f"{n // 100:03}" / f"{n}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        item = n % 100  # few words: the fake encoder remembers every one it has seen
        path.write_text(f"# Note {item}\n\nThe value of item {item} is {7 * item}. 第{item}条记录。\n", "utf-8")
    return root


@pytest.mark.heavy
def test_ten_thousand_files_take_hardly_more_memory_than_one_thousand(tmp_path: Path) -> None:
    few = ingest(tmp_path, write_notes(tmp_path / "few", 1_000))
    many = ingest(tmp_path, write_notes(tmp_path / "many", 10_000))
    assert (few["documents"], many["documents"]) == (1_000, 10_000)
    assert many["own_mib"] - few["own_mib"] < 32


@pytest.mark.parametrize("pages", [70, pytest.param(1_600, marks=pytest.mark.heavy)])
def test_a_long_pdf_is_read_page_by_page(tmp_path: Path, pages: int) -> None:
    root = tmp_path / "pdf"
    root.mkdir()
    with pypdfium2.PdfDocument(HANDBOOK) as handbook, pypdfium2.PdfDocument.new() as long:
        while len(long) < pages:
            long.import_pages(handbook)
        long.save(root / "long.pdf")
    figures = ingest(tmp_path, root)
    assert figures["documents"] == 1
    assert figures["own_mib"] < 300
    assert figures["children_mib"] < 300
