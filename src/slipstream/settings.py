"""Every knob: typed, bounded, documented; unknown keys are refused.

Sources, strongest first: command-line options, environment (`SLIPSTREAM_ENGINE__KV_CACHE_GIB=2`),
`slipstream.toml` (in the working directory, or named by `--config` or `SLIPSTREAM_CONFIG`), defaults.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
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
    store: Literal["qdrant-edge", "qdrant", "milvus", "memory"] = "qdrant-edge"
    """Where passages live: embedded, in a server or cluster (its own section below), or in "memory", which is exact,
    small and forgets at exit."""


class QdrantSettings(_Section):
    """A Qdrant server or cluster, for `data.store = "qdrant"`."""

    url: str = "http://127.0.0.1:6334"
    """Its gRPC port; https:// for TLS."""
    api_key: SecretStr | None = None
    collection: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9_.-]+$")] = "slipstream"
    """Made when there is none. Servers with the same settings share it."""
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 5.0
    """Longest time of a read, repetitions included; after it the answer is 503."""
    write_timeout_s: Annotated[float, Field(gt=0, le=3_600)] = 30.0
    """Longest time of a write, which waits until it is applied."""
    attempts: Annotated[int, Field(ge=1, le=10)] = 4
    """How often a call is made at most when the server is away or busy."""
    connections: Annotated[int, Field(ge=1, le=64)] = 3
    shards: Annotated[int, Field(ge=1, le=1_024)] | None = None
    """Of a collection that is made; unset leaves it to the server. BM25 counts term frequencies in each by itself."""
    replicas: Annotated[int, Field(ge=1, le=32)] | None = None
    """Copies of each shard of a collection that is made; unset leaves it to the server."""
    write_consistency: Annotated[int, Field(ge=1, le=32)] | None = None
    """Copies that must have a write before it counts; unset leaves it to the server."""

    @field_validator("url")
    @classmethod
    def _address(cls, url: str) -> str:
        try:
            address = urlsplit(url)
            complete = address.scheme in {"http", "https"} and address.hostname and address.port
        except ValueError:
            complete = False
        if not complete or address.path.strip("/") or address.username:
            raise ValueError("give the gRPC address as http://host:6334 or https://host:6334; keys go into api_key")
        return url


class MilvusSettings(_Section):
    """A Milvus server or cluster, for `data.store = "milvus"`. BM25 needs 2.4 or later; an older server (2.3) searches
    by dense vectors alone, with `retrieval.sparse_limit = 0`."""

    uri: str = "http://127.0.0.1:19530"
    """https:// for TLS."""
    token: SecretStr | None = None
    """An API key, or `user:password`."""
    database: Annotated[str, Field(max_length=255, pattern=r"^[A-Za-z0-9_]*$")] = ""
    """One that exists; empty takes the server's default."""
    collection: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = "slipstream"
    """Made when there is none, with one beside it for token vectors. Servers with the same settings share them."""
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 5.0
    """Longest time of a read, repetitions included; after it the answer is 503."""
    write_timeout_s: Annotated[float, Field(gt=0, le=3_600)] = 30.0
    attempts: Annotated[int, Field(ge=1, le=10)] = 4
    """How often a call is made at most when the server is away or busy."""
    partitions: Annotated[int, Field(ge=1, le=1_024)] = 16
    """Of a collection that is made: tenants are spread over them, and a search looks into its tenant's one only."""
    consistency: Literal["session", "strong"] = "session"
    """What a search is sure to see: all that this process has written, at no cost; or what every process has written,
    at the price of waiting for the server's next time tick, some 200 ms."""


class ModelsSettings(_Section):
    cache_dir: Path = Field(default_factory=lambda: _xdg("XDG_CACHE_HOME", ".cache") / "models")
    """Downloaded and converted models; may be shared by processes and deleted at any time."""
    encoder: str = "multilingual-e5-small"
    """A catalogue name, or a directory with an ONNX or OpenVINO IR encoder."""
    cross_encoder: str | None = None
    """What decides among the best candidates: a directory with an ONNX or OpenVINO IR cross-encoder,
    `hf:organisation/repository`, the URL of a reranking server (see `cross_encoder.api`), "fake", or none."""
    small: str | None = "smollm2-135m-instruct"
    """The small tier: a catalogue name, a GGUF file, an OpenVINO IR directory, the URL of an OpenAI-compatible
    server (`http://host:8000/v1#model`, several with commas; more options in `engines`), "fake", or none."""
    large: str | None = None
    """The large tier, likewise; none sends everything to the small tier."""
    offline: bool = False
    """Never fetch: a missing model is an error at once."""

    @property
    def local_cross_encoder(self) -> str | None:
        """The cross-encoder when it runs here; None when there is none, or a remote one."""
        return None if (self.cross_encoder or "").startswith(("http://", "https://")) else self.cross_encoder


class EncoderSettings(_Section):
    threads: Annotated[int, Field(ge=0, le=256)] = 0
    """Inference threads; 0 takes the machine's cores."""
    max_batch_tokens: Annotated[int, Field(ge=64, le=65_536)] = 2_048
    """Upper bound of one forward pass, padding included."""
    precision: Literal["auto", "f32", "bf16"] = "auto"
    """Of the arithmetic for passages; queries are always f32. `auto` takes bf16 where the processor multiplies it
    natively: 1.7 to 3.4 times as fast where measured, vectors within 0.0001 in cosine of those in f32."""


RerankApi: TypeAlias = Literal["tei", "infinity", "jina", "cohere", "cohere-v1", "vllm", "vllm-score"]


class CrossEncoderSettings(_Section):
    """The model that `models.cross_encoder` names."""

    threads: Annotated[int, Field(ge=0, le=256)] = 0
    """Inference threads of a local one; 0 takes the machine's cores."""
    max_pair_tokens: Annotated[int, Field(ge=32, le=8_192)] = 512
    """Longest query and passage together, for a local one; of a longer pair the end of the passage is cut."""
    max_batch_tokens: Annotated[int, Field(ge=64, le=262_144)] = 8_192
    """Upper bound of what a local one takes at once from all users, padding included."""
    max_waiting: Annotated[int, Field(ge=1)] = 1_024
    """Pairs that wait for a local one; beyond it answers go without it."""
    api: RerankApi = "tei"
    """The wire shape of a remote one."""
    model: str = ""
    """The name a remote server knows the model by, where it wants one."""
    api_key: SecretStr | None = None
    max_concurrent: Annotated[int, Field(ge=1, le=1_024)] = 32
    """Requests to a remote one at once; beyond it answers go without it."""
    retries: Annotated[int, Field(ge=0, le=5)] = 1
    timeout_ms: Annotated[int, Field(ge=10, le=60_000)] = 2_000
    """What one answer waits for it, retries included; then late interaction's order stands."""
    cached_scores: Annotated[int, Field(ge=0, le=10_000_000)] = 65_536
    """Scores remembered, by query and passage; about 300 bytes each. 0 remembers none."""


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


EngineKind: TypeAlias = Literal["auto", "vllm", "sglang", "tgi", "trtllm", "llama", "openai", "slipstream", "other"]


class RemoteEngineSettings(_Section):
    """One tier's model on OpenAI-compatible servers: replicas that serve the same model."""

    base_urls: Annotated[tuple[str, ...], Field(min_length=1, max_length=64)]
    """One address each, with or without `/v1`: `http://gpu1:8000/v1`."""
    model: str = ""
    """The name the servers know the model by; unset takes the first they list."""
    api_key: SecretStr | None = None
    """Sent as a bearer token to every replica."""
    kind: EngineKind = "auto"
    """What the servers are; "auto" asks them."""
    context_tokens: Annotated[int, Field(ge=256, le=16_777_216)] | None = None
    """Prompt plus answer at most; unset takes what the servers say, or 8,192."""
    languages: Annotated[tuple[Literal["en", "zh", "other"], ...], Field(min_length=1)] = ("en", "zh", "other")
    """Those the model answers in acceptably; the router heeds it."""
    tokenizer: Path | None = None
    """A `tokenizer.json`, or a directory with one: exact counts. Unset, counts are estimated and learnt."""
    connect_s: Annotated[float, Field(gt=0, le=60)] = 2.0
    first_token_s: Annotated[float, Field(gt=0, le=3_600)] = 30.0
    """Longest wait for the first token before another replica is tried."""
    idle_s: Annotated[float, Field(gt=0, le=3_600)] = 20.0
    """Longest silence within an answer."""
    start_s: Annotated[float, Field(gt=0, le=7_200)] = 300.0
    """How long the start waits for a replica to be up."""
    hedge_ms: Annotated[int, Field(ge=0, le=600_000)] = 0
    """A first token later than this is also asked of another replica, at most for one request in ten; 0 never."""
    max_concurrency: Annotated[int, Field(ge=1, le=65_536)] = 256
    """Requests at one replica at once; beyond it, on all of them, a request is refused with 429."""
    health_s: Annotated[float, Field(gt=0, le=600)] = 5.0
    """How often each replica's health is asked."""
    salt_tenants: bool = True
    """Keep the prefix caches of tenants apart on servers that can (vLLM, SGLang), so that the time to the first
    token tells nothing of other tenants' prompts."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Added to every request, such as `{ chat_template_kwargs = { enable_thinking = false } }`."""

    @field_validator("base_urls")
    @classmethod
    def _plain_addresses(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_engine_address(url) for url in urls)


class EnginesSettings(_Section):
    """Remote engines by tier; one that is set stands in for `models.small` or `models.large`."""

    small: RemoteEngineSettings | None = None
    large: RemoteEngineSettings | None = None


def _engine_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{parts.scheme}://{parts.hostname or ''} is no address of an engine; use http://host:port/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(f"the address of {parts.hostname} holds more than host and path; a key belongs in api_key")
    path = parts.path.rstrip("/") or "/v1"
    return f"{parts.scheme}://{parts.netloc}{path}"


def remote_engine(name: str) -> RemoteEngineSettings | None:
    """The engine that a model name of the form `http://host:port/v1,http://other:port/v1#model` stands for.

    None for a name that is no URL. Raises ConfigError for a URL that cannot be used.
    """
    if not name.startswith(("http://", "https://")):
        return None
    urls, _, model = name.partition("#")
    try:
        return RemoteEngineSettings(base_urls=tuple(urls.split(",")), model=model)
    except ValidationError as error:
        raise ConfigError(f"The model's address cannot be used: {error.errors()[0]['msg']}.") from None


IndexKind: TypeAlias = Literal["flat", "hnsw", "ivf_flat", "ivf_pq"]
Quantization: TypeAlias = Literal["none", "scalar", "product", "binary", "turbo"]


class IndexSettings(_Section):
    """How dense vectors are indexed and searched. What is unset stays as the store has it: as it was tuned
    (`slipstream index tune --apply`), or the defaults named here. What is set here wins over what was tuned."""

    kind: IndexKind | None = None
    """hnsw by default; the embedded store and Qdrant also offer flat, Milvus flat, ivf_flat and ivf_pq."""
    m: Annotated[int, Field(ge=4, le=128)] | None = None
    """HNSW: edges per node (16). More finds more, and takes memory and time to build."""
    ef_construct: Annotated[int, Field(ge=8, le=4_096)] | None = None
    """HNSW: candidates looked at while building (128)."""
    nlist: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """IVF: clusters (1024)."""
    pq_m: Annotated[int, Field(ge=1, le=4_096)] | None = None
    """IVF_PQ: sub-vectors, a divisor of the dimensions (48)."""
    pq_bits: Annotated[int, Field(ge=1, le=16)] | None = None
    """IVF_PQ: bits per sub-vector (8)."""
    quantization: Quantization | None = None
    """HNSW and flat: a compressed copy that the search reads first (none)."""
    ef: Annotated[int, Field(ge=1, le=4_096)] | None = None
    """HNSW: candidates looked at by a search (64)."""
    nprobe: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """IVF: clusters looked at by a search (16)."""
    rescore: bool | None = None
    """Whether what the compressed copy found is scored again with the full vectors (yes)."""
    oversampling: Annotated[float, Field(ge=1, le=100)] | None = None
    """How many times the limit the compressed copy gives to rescoring (2)."""


class RetrievalSettings(_Section):
    dense_limit: Annotated[int, Field(ge=0, le=1_000)] = 50
    sparse_limit: Annotated[int, Field(ge=0, le=1_000)] = 50
    rrf_k: Annotated[int, Field(ge=1, le=1_000)] = 60
    dense_weight: Annotated[float, Field(ge=0)] = 1.0
    sparse_weight: Annotated[float, Field(ge=0)] = 1.0
    rerank_limit: Annotated[int, Field(ge=0, le=1_000)] = 50
    """Fused candidates that late interaction scores; 0 turns it off. With a cross-encoder, 100 unless set."""
    cross_encoder_limit: Annotated[int, Field(ge=0, le=100)] = 12
    """Of those, the best, among which the cross-encoder decides when there is one; 0 turns it off."""
    passages: Annotated[int, Field(ge=1, le=50)] = 3
    """Passages cited, and given to the model as far as the budget allows."""
    per_document: Annotated[int, Field(ge=0, le=50)] = 0
    """Of those, how many come from one document as long as others have something to say; 0 sets no bound."""
    near_duplicate: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of common character trigrams from which on two passages count as one; 1 collapses equal texts only."""
    neighbours: Annotated[int, Field(ge=0, le=5)] = 0
    """Passages before and behind each one found that are joined to it."""
    expand: Literal["none", "multi", "hyde", "auto"] = "none"
    """Whether queries are also searched in other words: always (multi), by an answer that the language model
    imagines (hyde), or when the first search looks weak (auto). Requests may ask for their own."""
    wording_ms: Annotated[int, Field(ge=50, le=60_000)] = 2_000
    """The most that a language model may take to word or imagine something for a search; it is only asked when
    twice that is left before the deadline."""
    condense: bool = False
    """Whether the language model makes a follow-up stand alone when the rules cannot tell and the deadline allows."""
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


class CacheSettings(_Section):
    """Answers are kept, and served again to the same question or to another that means the same, after a check
    against the documents as they are then."""

    mode: Literal["auto", "off"] = "auto"
    """off keeps nothing; a request can still not turn it on."""
    semantic: bool = True
    """Whether other words that mean the same are served too, after verification."""
    backend: Literal["sqlite", "redis"] = "sqlite"
    """Where answers are kept: in the data directory, or in a Redis that several gateways share."""
    redis_url: str = "redis://127.0.0.1:6379/0"
    max_mib: Annotated[int, Field(ge=1)] = 256
    """Bound of what is kept in the data directory; Redis has its own `maxmemory`."""
    recent_mib: Annotated[int, Field(ge=0)] = 32
    """Memory for answers held ready to be served at once."""
    max_age_s: Annotated[float, Field(gt=0)] = 7 * 86_400
    max_temperature: Annotated[float, Field(ge=0, le=2)] = 0.3
    """Answers drawn at a higher temperature are not kept: whoever asks for variety shall have it."""
    min_cost_ms: Annotated[float, Field(ge=0)] = 20.0
    """Answers written faster than this are only held ready, since finding them again costs about as much."""
    candidates: Annotated[int, Field(ge=1, le=64)] = 4
    """Stored questions that are looked at for one asked."""
    min_similarity: Annotated[float, Field(ge=-1, le=1)] = 0.8
    """Cosine below which a stored question is not looked at; what lies above is verified."""
    thresholds: dict[Literal["en", "zh"], tuple[float, float]] | None = None
    """By language: how close in meaning another wording must be, and its least covered word; `slipstream cache
    calibrate` measures them. Unset takes those calibrated for the encoder, or none: then only equal words pass."""


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


class TenantLimits(_Section):
    """What one tenant may keep; beyond it a document is refused and says which limit. 0 sets none."""

    max_passages: Annotated[int, Field(ge=0)] = 0
    max_documents: Annotated[int, Field(ge=0)] = 0


class TenantsSettings(TenantLimits):
    """Limits of every tenant, and of single ones by name: `[tenants.limits.acme]`.

    What a tenant may hold of the running tokens is `admission.tenant_share`.
    """

    limits: dict[str, TenantLimits] = Field(default_factory=dict)

    def of(self, tenant: str) -> TenantLimits:
        return self.limits.get(tenant, self)


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
    qdrant: QdrantSettings = Field(default_factory=QdrantSettings)
    milvus: MilvusSettings = Field(default_factory=MilvusSettings)
    models: ModelsSettings = Field(default_factory=ModelsSettings)
    encoder: EncoderSettings = Field(default_factory=EncoderSettings)
    cross_encoder: CrossEncoderSettings = Field(default_factory=CrossEncoderSettings)
    engine: EngineSettings = Field(default_factory=EngineSettings)
    engines: EnginesSettings = Field(default_factory=EnginesSettings)
    index: IndexSettings = Field(default_factory=IndexSettings)
    retrieval: RetrievalSettings = Field(default_factory=RetrievalSettings)
    answer: AnswerSettings = Field(default_factory=AnswerSettings)
    cache: CacheSettings = Field(default_factory=CacheSettings)
    admission: AdmissionSettings = Field(default_factory=AdmissionSettings)
    ingest: IngestSettings = Field(default_factory=IngestSettings)
    tenants: TenantsSettings = Field(default_factory=TenantsSettings)
    server: ServerSettings = Field(default_factory=ServerSettings)

    def local_llm(self, tier: Literal["small", "large"]) -> str | None:
        """The name of a tier's model when it runs here; None when there is none, or it runs elsewhere."""
        name = self.models.small if tier == "small" else self.models.large
        engine = self.engines.small if tier == "small" else self.engines.large
        return None if engine is not None or remote_engine(name or "") is not None else name

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
        raise _not_valid(error) from None
    except ValueError as error:  # a TOML syntax error
        raise ConfigError(f"{read._toml_path()} is not valid TOML: {error}") from None


def server_settings(settings: ServerSettings, changes: dict[str, Any]) -> ServerSettings:
    """The settings with what a command line changes; no source is read again. Raises ConfigError."""
    try:
        return ServerSettings(**{**dict(settings), **changes})
    except ValidationError as error:
        raise _not_valid(error) from None


def _not_valid(error: ValidationError) -> ConfigError:
    lines = [f"  {'.'.join(map(str, e['loc'])) or 'settings'}: {e['msg']}" for e in error.errors()]
    return ConfigError("The configuration is not valid:\n" + "\n".join(lines))


def _reading(config: Path) -> type[Settings]:
    """Settings out of this file: the library takes the path from the class."""

    class SettingsOfFile(Settings):
        @classmethod
        def _toml_path(cls) -> Path:
            return config

    return SettingsOfFile
