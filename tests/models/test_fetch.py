"""Fetching through the real pip from a directory of real wheels: resumed, verified, refused."""

from __future__ import annotations

import hashlib
import os
import socket
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from slipstream.errors import ConfigError, DataError, Unavailable
from slipstream.models.catalogue import CatalogueEntry, WheelPart
from slipstream.models.fetch import fetch_entry
from slipstream.models.ready import Progress, ignore_progress

ONE, TWO = b"first half, " * 9_000, b"second half" * 7_000
Fetch = Callable[[CatalogueEntry], Path]


class Index:
    """A directory of wheels that pip is told to look in, and nowhere else."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()

    def add(self, name: str, content: bytes, *, member: str = "data/model.bin", tag: str = "py3-none-any") -> Path:
        stem = name.replace("-", "_")
        wheel = self.directory / f"{stem}-1.0-{tag}.whl"
        info = f"{stem}-1.0.dist-info"
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"{stem}/{member}", content)
            archive.writestr(f"{stem}/__init__.py", "raise SystemExit('imported')")
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            archive.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
            archive.writestr(f"{info}/RECORD", "")
        return wheel


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    return Index(tmp_path / "index")


@pytest.fixture
def fetch(tmp_path: Path) -> Fetch:
    (tmp_path / "model").mkdir()
    return lambda entry: fetch_entry(entry, tmp_path / "model", tmp_path / "model" / "work", ignore_progress)


def part(name: str, content: bytes) -> WheelPart:
    member = f"{name.replace('-', '_')}/data/model.bin"
    return WheelPart(f"{name}==1.0", member, hashlib.sha256(content).hexdigest(), len(content), len(content))


def entry(*parts: WheelPart, content: bytes) -> CatalogueEntry:
    return CatalogueEntry(
        name="letters",
        title="Letters",
        kind="llm",
        format="gguf",
        licence="MIT",
        homepage="https://example.org",
        languages=frozenset({"en"}),
        parts=parts,
        file_name="letters.gguf",
        sha256=hashlib.sha256(content).hexdigest(),
        converted_bytes=1,
    )


@pytest.fixture
def halves() -> CatalogueEntry:
    return entry(part("letters-one", ONE), part("letters-two", TWO), content=ONE + TWO)


def test_parts_come_together_in_order_and_nothing_else_stays(
    index: Index, halves: CatalogueEntry, tmp_path: Path
) -> None:
    index.add("letters-one", ONE)
    index.add("letters-two", TWO, tag="py3-none-manylinux2014_x86_64")
    seen: list[Progress] = []

    path = fetch_entry(halves, tmp_path / "model", tmp_path / "model" / "work", seen.append)

    assert path.read_bytes() == ONE + TWO
    assert [child.name for child in (tmp_path / "model").iterdir()] == ["letters.gguf"]
    done = [progress.done_bytes for progress in seen]
    assert done == sorted(done)
    assert seen[-1] == Progress("letters", "fetch", halves.download_bytes, halves.download_bytes)


def test_an_interrupted_fetch_goes_on_with_the_part_that_is_missing(
    index: Index, halves: CatalogueEntry, fetch: Fetch
) -> None:
    first = index.add("letters-one", ONE)
    with pytest.raises(Unavailable, match=r"does not have letters-two==1\.0"):
        fetch(halves)
    first.unlink()
    index.add("letters-two", TWO)

    assert fetch(halves).read_bytes() == ONE + TWO


@pytest.mark.parametrize("damage", ["altered", "cut"])
def test_what_lies_wrong_on_disk_is_fetched_again(
    index: Index, halves: CatalogueEntry, fetch: Fetch, tmp_path: Path, damage: str
) -> None:
    index.add("letters-one", ONE)
    with pytest.raises(Unavailable):
        fetch(halves)
    partial = tmp_path / "model" / "letters.gguf.partial"
    partial.write_bytes(b"x" + ONE[1:] if damage == "altered" else ONE[:-5])
    index.add("letters-two", TWO)

    assert fetch(halves).read_bytes() == ONE + TWO


def test_a_finished_file_that_was_altered_is_replaced(index: Index, fetch: Fetch) -> None:
    index.add("letters-one", ONE)
    whole = entry(part("letters-one", ONE), content=ONE)
    fetch(whole).write_bytes(b"altered")

    assert fetch(whole).read_bytes() == ONE


@pytest.mark.parametrize("served", [ONE[:-1], ONE[:-1] + b"?", ONE + b"more"], ids=["short", "other", "long"])
def test_other_content_than_pinned_is_refused_and_removed(
    index: Index, fetch: Fetch, tmp_path: Path, served: bytes
) -> None:
    index.add("letters-one", served)

    with pytest.raises(DataError, match="does not have the expected SHA-256"):
        fetch(entry(part("letters-one", ONE), content=ONE))

    assert (tmp_path / "model" / "letters.gguf.partial").stat().st_size == 0
    assert not (tmp_path / "model" / "work").exists()


def test_a_wheel_without_the_file_is_refused(index: Index, fetch: Fetch) -> None:
    index.add("letters-one", ONE, member="elsewhere.bin")

    with pytest.raises(DataError, match=r"lacks letters_one/data/model\.bin"):
        fetch(entry(part("letters-one", ONE), content=ONE))


def test_parts_that_do_not_make_the_whole_are_removed(index: Index, halves: CatalogueEntry, fetch: Fetch) -> None:
    index.add("letters-one", ONE)
    index.add("letters-two", TWO)

    with pytest.raises(DataError, match="do not make the expected file"):
        fetch(replace(halves, sha256=hashlib.sha256(b"").hexdigest()))

    assert fetch(halves).read_bytes() == ONE + TWO


def test_want_of_space_is_noticed_before_anything_is_fetched(
    index: Index, halves: CatalogueEntry, fetch: Fetch, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"needs \d+ MiB .* are free"):
        fetch(replace(halves, converted_bytes=1 << 62))

    assert not list((tmp_path / "model").iterdir())


def test_no_network_says_what_to_do_and_tells_no_secret(
    index: Index, halves: CatalogueEntry, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://someone:hush@127.0.0.1:{port}/simple")

    with pytest.raises(Unavailable) as raised:
        fetch(halves)

    assert "Check the network" in raised.value.message
    assert not any(secret in raised.value.message for secret in ("hush", "someone", "127.0.0.1"))


def test_without_pip_the_user_is_told(
    index: Index, halves: CatalogueEntry, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")

    with pytest.raises(ConfigError, match="ensurepip"):
        fetch(halves)
