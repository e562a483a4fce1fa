"""Provisioning as processes share it: made once, whole or not at all, whatever dies in between."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from filelock import FileLock

from slipstream.errors import ConfigError, DataError
from slipstream.models.catalogue import BILINGUAL, CATALOGUE
from slipstream.models.convert_gguf import IR_FILES
from slipstream.models.disk import disk_errors
from slipstream.models.manifest import MANIFEST_FILE, Description
from slipstream.models.provision import Provisioner
from slipstream.models.ready import ModelKind, Progress, ProgressSink


@dataclass
class Letters:
    """A recipe whose model is one file with a letter in it."""

    letter: str = "a"
    name: str = "letters"
    kind: ModelKind = "llm"
    title: str = "Letters"
    network: bool = False
    before: Callable[[], None] = lambda: None
    made: list[str] = field(default_factory=list)

    def needs_network(self, source_dir: Path) -> bool:
        return self.network

    def identity(self) -> str:
        return f"letter:{self.letter}"

    def obtain(self, source_dir: Path, work_dir: Path, progress: ProgressSink) -> tuple[Path, ...]:
        return ()

    def make(self, files: tuple[Path, ...], target_dir: Path) -> None:
        (target_dir / "part").mkdir()
        (target_dir / "part" / "letter.txt").write_text(self.letter)
        self.before()
        self.made.append(self.letter)

    def describe(self, files: tuple[Path, ...]) -> Description:
        return Description(frozenset({"zh", "en"}), "MIT")


PROCESS = textwrap.dedent("""
    import os, sys
    from pathlib import Path
    from slipstream.models.manifest import Description
    from slipstream.models.provision import Provisioner

    class Letters:
        name, kind, title = "letters", "llm", "Letters"
        def needs_network(self, source_dir): return False
        def identity(self): return "letter:a"
        def obtain(self, source_dir, work_dir, progress): return ()
        def describe(self, files): return Description(frozenset({"en"}), "MIT")
        def make(self, files, target_dir):
            (target_dir / "letter.txt").write_text("a")
            if sys.argv[2] == "die":
                os.kill(os.getpid(), 9)
            with open(sys.argv[2], "a") as log:
                log.write("made\\n")

    print(Provisioner(Path(sys.argv[1])).prepare(Letters()).path)
""")


def start(cache: Path, log: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PROCESS, str(cache), log], stdout=subprocess.PIPE, text=True)


def leftovers(cache: Path) -> list[Path]:
    return list(cache.glob("*/.work-*"))


def test_made_once_then_found(tmp_path: Path) -> None:
    letters, seen = Letters(), list[Progress]()
    provisioner = Provisioner(tmp_path, progress=seen.append)

    first = provisioner.prepare(letters)
    told = [progress.step for progress in seen]
    again = provisioner.prepare(letters)

    assert (first.path / "part" / "letter.txt").read_text() == "a"
    assert (first.languages, first.licence, first.name) == (frozenset({"en", "zh"}), "MIT", "letters")
    assert again == first
    assert letters.made == ["a"]
    assert told == [progress.step for progress in seen] == ["convert", "ready"]
    assert not leftovers(tmp_path)


def test_processes_that_start_at_once_make_it_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    processes = [start(tmp_path / "cache", str(log)) for _ in range(4)]
    paths = {process.communicate()[0] for process in processes}

    assert {process.returncode for process in processes} == {0}
    assert paths == {f"{tmp_path / 'cache' / 'letters' / 'ready'}\n"}
    assert log.read_text() == "made\n"


def test_a_process_killed_half_way_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    process = start(tmp_path, "die")
    process.communicate()
    assert process.returncode == -9
    assert leftovers(tmp_path)
    assert not (tmp_path / "letters" / "ready").exists()

    assert Provisioner(tmp_path).prepare(Letters()).path.is_dir()
    assert not leftovers(tmp_path)


def test_a_failure_leaves_no_model_and_no_lock(tmp_path: Path) -> None:
    def fail() -> None:
        raise DataError("broken")

    seen: list[Progress] = []
    with pytest.raises(DataError, match="broken"):
        Provisioner(tmp_path, progress=seen.append).prepare(Letters(before=fail))

    assert seen[-1].step == "failed"
    assert not (tmp_path / "letters" / "ready").exists()
    assert Provisioner(tmp_path).prepare(Letters()).path.is_dir()


def test_a_changed_source_is_converted_anew_and_a_failure_keeps_the_old(tmp_path: Path) -> None:
    def fail() -> None:
        raise DataError("broken")

    provisioner = Provisioner(tmp_path)
    path = provisioner.prepare(Letters("a")).path
    with pytest.raises(DataError):
        provisioner.prepare(Letters("b", before=fail))
    assert (path / "part" / "letter.txt").read_text() == "a"

    assert (provisioner.prepare(Letters("b")).path / "part" / "letter.txt").read_text() == "b"


@pytest.mark.parametrize("harm", ["cut", "gone", "other versions", "no manifest", "not JSON"])
def test_what_is_not_whole_or_not_of_these_versions_is_made_anew(tmp_path: Path, harm: str) -> None:
    letters, provisioner = Letters(), Provisioner(tmp_path)
    path = provisioner.prepare(letters).path
    manifest, letter = path / MANIFEST_FILE, path / "part" / "letter.txt"
    if harm == "cut":
        letter.write_text("")
    elif harm == "gone":
        letter.unlink()
    elif harm == "other versions":
        manifest.write_text(manifest.read_text().replace('"openvino": "', '"openvino": "0.'))
    elif harm == "no manifest":
        manifest.unlink()
    else:
        manifest.write_text("{")
    if harm in ("cut", "gone", "other versions"):
        assert provisioner.list()[-1].state == "outdated"

    assert provisioner.prepare(letters).path == path
    assert letters.made == ["a", "a"]
    assert letter.read_text() == "a"


def test_offline_takes_what_is_there_and_refuses_to_fetch(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="offline"):
        Provisioner(tmp_path, offline=True).prepare(Letters(network=True))
    Provisioner(tmp_path).prepare(Letters(network=True))

    assert Provisioner(tmp_path, offline=True).prepare(Letters(network=True)).path.is_dir()


def test_offline_names_the_catalogue_model_and_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"smollm2-135m-instruct is not in .* `slipstream models pull`"):
        Provisioner(tmp_path, offline=True).ensure("smollm2-135m-instruct", "llm")


def test_list_shows_the_catalogue_and_what_else_is_cached(tmp_path: Path) -> None:
    provisioner = Provisioner(tmp_path)
    provisioner.prepare(Letters())
    (tmp_path / BILINGUAL / "source").mkdir(parents=True)
    (tmp_path / BILINGUAL / "source" / "Qwen2.5-Coder-1.5B-Instruct.Q4_K_M.gguf.partial").write_bytes(b"half")

    states = {status.name: status.state for status in provisioner.list()}

    assert states == {**{entry.name: "absent" for entry in CATALOGUE}, BILINGUAL: "partial", "letters": "ready"}


def test_remove_frees_what_it_says_and_waits_for_nobody(tmp_path: Path) -> None:
    provisioner = Provisioner(tmp_path)
    provisioner.prepare(Letters())
    size = provisioner.list()[-1].bytes_on_disk
    with FileLock(tmp_path / ".locks" / "letters.lock"), pytest.raises(ConfigError, match="another process"):
        provisioner.remove("letters")

    assert provisioner.remove("letters") == size > 1
    with pytest.raises(ConfigError, match="no model 'letters'"):
        provisioner.remove("letters")
    assert [status.name for status in provisioner.list()] == [entry.name for entry in CATALOGUE]


def test_remove_keeps_to_the_cache(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "cache").mkdir()
    for name in ("../precious", "..", ".locks", ""):
        with pytest.raises(ConfigError):
            Provisioner(tmp_path / "cache").remove(name)
    assert (tmp_path / "precious").is_dir()


@pytest.mark.parametrize(
    ("ref", "kind", "says"),
    [
        ("no-such-model", "llm", "multilingual-e5-small, smollm2-135m-instruct, qwen2.5-coder"),
        ("multilingual-e5-small", "llm", "is an encoder, and a language model is needed"),
        ("smollm2-135m-instruct", "encoder", "is a language model, and an encoder is needed"),
        ("/no/such/model.gguf", "llm", "There is no model at /no/such/model.gguf"),
        ("hf:lonely", "llm", "Write hf:organisation/repository"),
    ],
)
def test_a_wrong_reference_says_what_is_right(tmp_path: Path, ref: str, kind: ModelKind, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Provisioner(tmp_path).ensure(ref, kind)


def test_a_directory_with_an_ir_is_taken_as_it_is(tmp_path: Path) -> None:
    directory = tmp_path / "some-qwen"
    directory.mkdir()
    with pytest.raises(ConfigError, match=r"it lacks openvino_model\.xml"):
        Provisioner(tmp_path / "cache").ensure(str(directory), "llm")
    for name in IR_FILES:
        (directory / name).touch()
    (directory / "config.json").write_text('{"model_type": "qwen3", "max_position_embeddings": 40960}')

    ready = Provisioner(tmp_path / "cache").ensure(str(directory), "llm")

    assert (ready.path, ready.context_tokens, ready.languages) == (directory, 40_960, frozenset({"en", "zh"}))
    assert not (tmp_path / "cache").exists()


def test_a_directory_with_several_ggufs_asks_which(tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).touch()
    with pytest.raises(ConfigError, match=r"name one of a\.gguf, b\.gguf"):
        Provisioner(tmp_path / "cache").ensure(str(tmp_path), "llm")


def test_a_cache_directory_that_cannot_be_is_a_setting_to_change(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"models\.cache_dir"):
        Provisioner(tmp_path / "file" / "cache").prepare(Letters())


def test_a_full_disk_says_so() -> None:
    with pytest.raises(ConfigError, match="is full"), disk_errors(Path("cache")):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
