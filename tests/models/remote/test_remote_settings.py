"""How a remote engine is named, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from slipstream.build import build
from slipstream.doctor.configured import configured
from slipstream.errors import ConfigError
from slipstream.models.llm_http import RemoteLanguageModel
from slipstream.settings import (
    DataSettings,
    EnginesSettings,
    ModelsSettings,
    RemoteEngineSettings,
    Settings,
    load_settings,
    remote_engine,
)


def test_a_url_names_replicas_and_a_model() -> None:
    engine = remote_engine("http://a:8000,https://b/v1/#Qwen/Qwen2.5-7B")
    assert engine is not None
    assert engine.base_urls == ("http://a:8000/v1", "https://b/v1")
    assert engine.model == "Qwen/Qwen2.5-7B"
    assert remote_engine("smollm2-135m-instruct") is None


@pytest.mark.parametrize("url", ["ftp://a", "http://", "http://user:pass@a/v1", "http://a/v1?key=sk-1", "a:8000"])
def test_an_address_that_is_more_or_less_than_one_is_refused(url: str) -> None:
    with pytest.raises(ValidationError) as caught:
        RemoteEngineSettings(base_urls=(url,))
    assert "pass" not in str(caught.value.errors()[0]["msg"])


def test_a_wrong_url_as_a_models_name_is_said() -> None:
    with pytest.raises(ConfigError, match="api_key"):
        remote_engine("http://user:pass@a/v1")


def test_a_file_sets_an_engine_and_its_key_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "slipstream.toml"
    path.write_text('[engines.large]\nbase_urls = ["http://a:8000"]\napi_key = "sk-secret"\nkind = "vllm"\n')
    settings = load_settings(path)
    assert settings.engines.large is not None
    assert "sk-secret" not in repr(settings)
    assert settings.local_llm("large") is None


def test_what_runs_elsewhere_is_not_fetched(tmp_path: Path) -> None:
    settings = Settings(
        data=DataSettings(dir=tmp_path, store="memory"),
        models=ModelsSettings(encoder="fake", large="http://a:8000#big"),
        engines=EnginesSettings(small=RemoteEngineSettings(base_urls=("http://b:8000",), model="little")),
    )
    assert [role for role, _, _ in configured(settings)] == ["encoder"]
    models = build(settings).parts.models
    assert {tier: model.name for tier, model in models.items()} == {"small": "little", "large": "big"}
    assert all(isinstance(model, RemoteLanguageModel) for model in models.values())
