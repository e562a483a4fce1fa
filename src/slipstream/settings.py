"""Every knob: typed, bounded, documented; unknown keys are refused.

Sources, strongest first: command-line options, environment (`SLIPSTREAM_ENGINE__KV_CACHE_GIB=2`),
`slipstream.toml` (in the working directory, or named by `--config` or `SLIPSTREAM_CONFIG`), defaults.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from slipstream.errors import ConfigError


def _xdg(variable: str, fallback: str) -> Path:
    base = os.environ.get(variable)
    return (Path(base) if base else Path.home() / fallback) / "slipstream"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DataSettings(_Section):
    dir: Path = Field(default_factory=lambda: _xdg("XDG_DATA_HOME", ".local/share"))
    """Passages, ledger and sessions. One process at a time holds it."""
    store: Literal["qdrant-edge", "memory"] = "qdrant-edge"
    """Where passages live; "memory" is exact, small and forgets at exit."""


class ModelsSettings(_Section):
    cache_dir: Path = Field(default_factory=lambda: _xdg("XDG_CACHE_HOME", ".cache") / "models")
    """Downloaded and converted models; may be shared by processes and deleted at any time."""
    encoder: str = "multilingual-e5-small"
    """A catalogue name, or a directory with an ONNX or OpenVINO IR encoder."""
    small: str | None = "smollm2-135m-instruct"
    """The small tier: a catalogue name, a GGUF file, an OpenVINO IR directory, "fake", or none."""
    large: str | None = None
    """The large tier, likewise; none sends everything to the small tier."""
    offline: bool = False
    """Never fetch: a missing model is an error at once."""


class EncoderSettings(_Section):
    threads: Annotated[int, Field(ge=0, le=256)] = 0
    """Inference threads; 0 takes the machine's cores."""
    max_batch_tokens: Annotated[int, Field(ge=64, le=65_536)] = 2_048
    """Upper bound of one forward pass, padding included."""


class EngineSettings(_Section):
    """The local language model engine."""

    threads: Annotated[int, Field(ge=0, le=256)] = 0
    kv_cache_gib: Annotated[float, Field(gt=0, le=1024)] = 1.0
    """Paged KV memory of each local model."""
    max_batch_tokens: Annotated[int, Field(ge=16, le=8_192)] = 128
    """Tokens computed per step: smaller keeps running streams smooth, larger prefills faster."""
    max_sequences: Annotated[int, Field(ge=1, le=1_024)] = 32
    context_tokens: Annotated[int, Field(ge=256, le=131_072)] = 4_096
    """Prompt plus answer at most; a model with a shorter context takes its own."""


class RetrievalSettings(_Section):
    dense_limit: Annotated[int, Field(ge=0, le=1_000)] = 50
    sparse_limit: Annotated[int, Field(ge=0, le=1_000)] = 50
    rrf_k: Annotated[int, Field(ge=1, le=1_000)] = 60
    dense_weight: Annotated[float, Field(ge=0)] = 1.0
    sparse_weight: Annotated[float, Field(ge=0)] = 1.0
    rerank_limit: Annotated[int, Field(ge=0, le=1_000)] = 50
    """Fused candidates that late interaction scores; 0 turns it off."""
    passages: Annotated[int, Field(ge=1, le=50)] = 3
    """Passages cited, and given to the model as far as the budget allows."""
    min_score: Annotated[float, Field(ge=-1, le=1)] | None = None
    """Late-interaction score per query token below which a passage is no evidence; unset takes the value
    calibrated for the encoder, or none for an encoder nobody has calibrated."""


Reads: TypeAlias = Literal["passages", "excerpts", "quotes"]
"""What a tier is given of the evidence: whole passages; their best sentences, as numbered passages with
instructions; or the best sentences alone, which is what a very small model answers from best, and soonest."""


class AnswerSettings(_Section):
    context_tokens: Annotated[int, Field(ge=64)] = 768
    """Prompt budget for passages, by the model's own tokenizer."""
    max_tokens: Annotated[int, Field(ge=1)] = 192
    """Answer length when the request names none."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    small_reads: Reads = "quotes"
    small_sentences: Annotated[int, Field(ge=1, le=50)] = 1
    """How many sentences the small tier is given, unless it reads passages."""
    small_max_tokens: Annotated[int, Field(ge=1)] = 96
    """Answer length of the small tier when the request names none; its first paragraph is all that is asked for."""
    large_reads: Reads = "excerpts"
    large_sentences: Annotated[int, Field(ge=1, le=50)] = 3


class AdmissionSettings(_Section):
    max_tokens: Annotated[int, Field(ge=256)] = 16_384
    """Estimated tokens (prefill + decode) running at once."""
    max_queued_tokens: Annotated[int, Field(ge=0)] = 32_768
    """Estimated tokens waiting; beyond it a request is refused at once with 429."""
    max_encoding_tokens: Annotated[int, Field(ge=256)] = 8_192
    """Estimated tokens that searches and embeddings encode at once."""
    max_queued_encoding_tokens: Annotated[int, Field(ge=0)] = 65_536
    """Those waiting; beyond it a search or an embedding is refused at once with 429."""
    max_uploads_mib: Annotated[int, Field(ge=1)] = 256
    """Uploads read and indexed at once, by their size; beyond it one is refused at once with 429."""
    tenant_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Largest share of the running tokens that one tenant may hold while another waits."""
    deadline_ms: Annotated[int, Field(ge=100)] = 60_000
    """Deadline of a request that names none."""


class IngestSettings(_Section):
    passage_tokens: Annotated[int, Field(ge=32, le=510)] = 200
    """Aimed length of a passage, by the encoder's tokenizer."""
    overlap_tokens: Annotated[int, Field(ge=0, le=128)] = 0
    max_file_mib: Annotated[int, Field(ge=1)] = 512


class ApiKey(_Section):
    key: SecretStr
    tenant: str


class ServerSettings(_Section):
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8_321
    api_keys: tuple[ApiKey, ...] = ()
    """Each key is bound to a tenant. Without keys the server listens on loopback only."""
    max_body_mib: Annotated[int, Field(ge=1)] = 64
    log_format: Literal["auto", "json", "text"] = "auto"

    @model_validator(mode="after")
    def _keys_or_loopback(self) -> ServerSettings:
        if not self.api_keys and self.host not in {"127.0.0.1", "localhost", "::1"}:
            raise ValueError(
                f"host {self.host} is reachable from outside and no api_keys are set; "
                "set server.api_keys, or listen on 127.0.0.1"
            )
        return self


class Settings(BaseSettings):
    """The whole configuration, validated at once."""

    model_config = SettingsConfigDict(
        env_prefix="SLIPSTREAM_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
    )

    data: DataSettings = Field(default_factory=DataSettings)
    models: ModelsSettings = Field(default_factory=ModelsSettings)
    encoder: EncoderSettings = Field(default_factory=EncoderSettings)
    engine: EngineSettings = Field(default_factory=EngineSettings)
    retrieval: RetrievalSettings = Field(default_factory=RetrievalSettings)
    answer: AnswerSettings = Field(default_factory=AnswerSettings)
    admission: AdmissionSettings = Field(default_factory=AdmissionSettings)
    ingest: IngestSettings = Field(default_factory=IngestSettings)
    server: ServerSettings = Field(default_factory=ServerSettings)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        toml = TomlConfigSettingsSource(settings_cls, cls._toml_path())
        return init_settings, env_settings, toml

    @classmethod
    def _toml_path(cls) -> Path:
        return Path(os.environ.get("SLIPSTREAM_CONFIG", "slipstream.toml"))


def load_settings(config: Path | None = None, **overrides: Any) -> Settings:
    """Reads the settings.

    Raises ConfigError naming every wrong key, and when `config` does not exist.
    """
    if config is not None and not config.is_file():
        raise ConfigError(f"The configuration file {config} does not exist.")
    read = Settings if config is None else _reading(config)
    try:
        return read(**overrides)
    except ValidationError as error:
        lines = [f"  {'.'.join(map(str, e['loc'])) or 'settings'}: {e['msg']}" for e in error.errors()]
        raise ConfigError("The configuration is not valid:\n" + "\n".join(lines)) from None
    except ValueError as error:  # a TOML syntax error
        raise ConfigError(f"{read._toml_path()} is not valid TOML: {error}") from None


def _reading(config: Path) -> type[Settings]:
    """Settings out of this file: the library takes the path from the class."""

    class SettingsOfFile(Settings):
        @classmethod
        def _toml_path(cls) -> Path:
            return config

    return SettingsOfFile
