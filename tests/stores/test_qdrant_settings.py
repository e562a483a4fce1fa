"""Settings of the Qdrant store: addresses that cannot work are refused at once, and the key stays hidden."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from slipstream.errors import ConfigError
from slipstream.settings import QdrantSettings, load_settings


@pytest.mark.parametrize(
    "url",
    [
        "qdrant:6334",
        "http://qdrant",
        "grpc://qdrant:6334",
        "http://qdrant:6334/prefix",
        "http://user:word@qdrant:6334",
        "http://qdrant:port",
        "",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="http://host:6334"):
        QdrantSettings(url=url)


@pytest.mark.parametrize("url", ["http://127.0.0.1:6334", "https://a.b.example:443", "http://[::1]:6334/"])
def test_addresses_with_scheme_host_and_port_are_taken(url: str) -> None:
    assert QdrantSettings(url=url).url == url


@pytest.mark.parametrize("name", ["", "a/b", "a b", "x" * 256])
def test_names_that_no_collection_can_have_are_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        QdrantSettings(collection=name)


def test_the_key_comes_from_the_environment_and_is_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLIPSTREAM_QDRANT__API_KEY", "very-secret")
    monkeypatch.setenv("SLIPSTREAM_DATA__STORE", "qdrant")
    settings = load_settings()
    assert settings.data.store == "qdrant"
    assert settings.qdrant.api_key is not None
    assert settings.qdrant.api_key.get_secret_value() == "very-secret"
    assert "very-secret" not in repr(settings) + settings.model_dump_json()


def test_a_key_in_the_address_is_not_repeated_in_the_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLIPSTREAM_QDRANT__URL", "http://key:very-secret@qdrant:6334")
    with pytest.raises(ConfigError) as raised:
        load_settings()
    assert "qdrant.url" in raised.value.message
    assert "very-secret" not in raised.value.message
