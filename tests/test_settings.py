"""Where settings come from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slipstream.errors import ConfigError
from slipstream.settings import load_settings, server_settings


def test_a_file_named_is_read_and_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLIPSTREAM_CONFIG", raising=False)
    (tmp_path / "slipstream.toml").write_text("[server]\nport = 1111\n")
    (tmp_path / "other.toml").write_text("[server]\nport = 2222\n")
    before = dict(os.environ)
    assert load_settings(tmp_path / "other.toml").server.port == 2222
    assert dict(os.environ) == before
    assert load_settings().server.port == 1111
    monkeypatch.setenv("SLIPSTREAM_CONFIG", str(tmp_path / "other.toml"))
    assert load_settings().server.port == 2222


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("[server\n")
    with pytest.raises(ConfigError, match=r"bad\.toml is not valid TOML"):
        load_settings(path)


def test_a_command_lines_changes_keep_what_was_read_and_are_checked(tmp_path: Path) -> None:
    config = tmp_path / "other.toml"
    config.write_text("[server]\nmax_body_mib = 7\nport = 9000\n", encoding="utf-8")
    read = load_settings(config).server
    changed = server_settings(read, {"port": 9001})
    assert (changed.port, changed.max_body_mib) == (9001, 7)
    with pytest.raises(ConfigError, match="reachable from outside"):
        server_settings(read, {"host": "0.0.0.0"})
