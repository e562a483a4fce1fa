from __future__ import annotations

import os
from pathlib import Path

from slipstream.ingest.report import Problem
from slipstream.ingest.walk import FoundFile, walk


def names(paths: list[Path], max_bytes: int = 100) -> list[str]:
    return [
        found.id if isinstance(found, FoundFile) else f"{found.code}: {found.name}" for found in walk(paths, max_bytes)
    ]


def test_order_ids_and_what_is_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "docs"
    (root / "sub" / ".cache").mkdir(parents=True)
    (root / "b.md").write_text("b")
    (root / "a.md").write_text("a")
    (root / "sub" / "文档.md").write_text("c")
    (root / ".git").mkdir()
    (root / ".hidden.md").write_text("h")
    (root / "big.md").write_bytes(bytes(101))
    os.mkfifo(root / "pipe")
    (root / "loop").symlink_to(root)
    (root / "gone").symlink_to(root / "nowhere")
    (root / "linked.md").symlink_to(root / "a.md")
    assert names([root]) == [
        "hidden: .git",
        "hidden: .hidden.md",
        "a.md",
        "b.md",
        "too_large: big.md",
        "unreadable: gone",
        "linked.md",
        "link: loop",
        "special: pipe",
        "hidden: sub/.cache",
        "sub/文档.md",
    ]


def test_a_file_goes_by_its_name_and_a_missing_path_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / ".env.md"
    path.write_text("named on purpose")
    found, problem = walk([path, tmp_path / "missing"], 100)
    assert isinstance(found, FoundFile)
    assert (found.id, found.root) == (".env.md", str(tmp_path))
    assert isinstance(problem, Problem)
    assert "No such file" in problem.reason


def test_a_signature_proves_nothing_while_the_file_is_fresh(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("a")
    (found,) = walk([path], 100)
    assert isinstance(found, FoundFile)
    assert found.signature(found.ctime_ns + 1) == ""
    assert found.signature(found.ctime_ns + 3_000_000_000).startswith("1:")


def test_a_name_that_is_not_text_is_a_problem_with_a_name_that_is(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    for name in (b"\xff.md", b"good.md"):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(b"x")
    os.mkdir(os.path.join(folder, b".\xfe"))
    assert names([tmp_path]) == ["hidden: .\\xfe", "good.md", "unreadable: \\xff.md"]
