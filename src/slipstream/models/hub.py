"""Fetches a model's files from a Hugging Face hub, when it can be reached; only file types that hold no code."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import httpx

from slipstream.errors import ConfigError, Unavailable
from slipstream.models.ready import ModelKind, Progress, ProgressSink

if TYPE_CHECKING:
    from huggingface_hub import HfApi

PREFIX = "hf:"
_REACH_S = 10.0
_TEXTS = {
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
}
_LLM_PARTS = tuple(f"openvino_{part}" for part in ("model", "tokenizer", "detokenizer"))
_ENCODER_GRAPHS = ("openvino/openvino_model.xml", "openvino_model.xml", "onnx/model.onnx", "model.onnx")


@dataclass(frozen=True, slots=True)
class HubRef:
    """`hf:organisation/repository`, or with `/FILE.gguf` after it."""

    repository: str
    file: str | None

    @property
    def name(self) -> str:
        return f"{PREFIX}{self.repository}" + (f"/{self.file}" if self.file else "")


def parse_hub_ref(ref: str) -> HubRef:
    parts = ref.removeprefix(PREFIX).split("/", 2)
    if len(parts) < 2 or not all(parts) or ".." in ref:
        raise ConfigError(f"{ref} is not a hub reference. Write hf:organisation/repository, or add /FILE.gguf.")
    return HubRef("/".join(parts[:2]), parts[2] if len(parts) == 3 else None)


def fetch_hub(
    ref: HubRef, kind: ModelKind, target_dir: Path, progress: ProgressSink, *, endpoint: str | None = None
) -> tuple[Path, ...]:
    """Downloads what `kind` needs of a repository; the local files, in the repository's folders.

    Files already there are not fetched again. Raises ConfigError when the repository has nothing usable or may
    not be read, Unavailable when the hub cannot be reached.
    """
    try:
        from huggingface_hub import HfApi, errors
    except ImportError as error:
        raise ConfigError(f"{ref.name} needs huggingface-hub: run `pip install 'slipstream-rag[hub]'`.") from error
    try:
        api = HfApi(endpoint=endpoint)
        httpx.head(api.endpoint, timeout=_REACH_S)  # the hub's own client retries for half a minute
        return _download(api, ref, kind, target_dir, progress)
    except (errors.RepositoryNotFoundError, errors.GatedRepoError) as error:
        raise ConfigError(
            f"The hub has no repository {ref.repository} that you may read. Correct the name, accept its licence on "
            "the hub, or set HF_TOKEN."
        ) from error
    except _unreachable() as error:
        raise Unavailable(
            f"The hub could not be reached for {ref.repository}. Check the network (HF_ENDPOINT names a mirror), "
            "or use a model of the catalogue: `slipstream models list`."
        ) from error


def _unreachable() -> tuple[type[Exception], ...]:
    """What failing to reach the hub raises; newer releases of its package bring an HTTP client of their own."""
    from huggingface_hub import errors

    known = (httpx.HTTPError, errors.HfHubHTTPError, errors.LocalEntryNotFoundError, ConnectionError, TimeoutError)
    try:
        from httpx2 import HTTPError
    except ImportError:
        return known
    return (*known, HTTPError)


def _download(api: HfApi, ref: HubRef, kind: ModelKind, target_dir: Path, progress: ProgressSink) -> tuple[Path, ...]:
    tree = api.list_repo_tree(ref.repository, recursive=True)
    sizes = {entry.path: int(entry.size) for entry in tree if hasattr(entry, "size") and ".." not in entry.path}
    wanted = wanted_files(ref, kind, frozenset(sizes))
    watched = _watched(ref.name, progress, sum(sizes[name] for name in wanted))
    return tuple(
        Path(api.hf_hub_download(ref.repository, name, local_dir=target_dir, tqdm_class=watched)) for name in wanted
    )


def _watched(model: str, progress: ProgressSink, total_bytes: int) -> Any:
    """The hub's package reports through a progress bar class: one that draws nothing and tells ours."""
    tqdm: Any = importlib.import_module("tqdm").tqdm
    done_bytes = 0

    class Watched(tqdm):  # type: ignore[misc]
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(disable=True)

        def update(self, n: float | None = 1) -> bool | None:
            nonlocal done_bytes
            done_bytes += int(n or 0)
            progress(Progress(model, "fetch", done_bytes, total_bytes))
            return None

    return Watched


def wanted_files(ref: HubRef, kind: ModelKind, names: frozenset[str]) -> tuple[str, ...]:
    """The files of a repository that make a model of this kind; never pickles. Pure.

    Raises ConfigError when there is none, or when the choice is the user's.
    """
    if ref.file is not None:
        if ref.file not in names or not ref.file.endswith(".gguf"):
            raise ConfigError(f"{ref.repository} has no GGUF file {ref.file}.")
        return (ref.file,)
    graphs = _llm_graphs(names) if kind == "llm" else _encoder_graphs(names)
    if graphs:
        return (*graphs, *sorted(_TEXTS & names))
    ggufs = sorted(name for name in names if name.endswith(".gguf"))
    if kind == "llm" and len(ggufs) == 1:
        return (ggufs[0],)
    if kind == "llm" and ggufs:
        raise ConfigError(f"{ref.repository} has several GGUF files; add one to the name: /{', /'.join(ggufs)}.")
    needed = "an OpenVINO IR or a GGUF file" if kind == "llm" else "tokenizer.json and an OpenVINO IR or ONNX graph"
    raise ConfigError(f"{ref.repository} has no model that can be served: {needed} is needed.")


def _llm_graphs(names: frozenset[str]) -> tuple[str, ...]:
    files = tuple(f"{part}.{suffix}" for part in _LLM_PARTS for suffix in ("xml", "bin"))
    return files if names.issuperset(files) else ()


def _encoder_graphs(names: frozenset[str]) -> tuple[str, ...]:
    graph = next((name for name in _ENCODER_GRAPHS if name in names), None)
    if graph is None or "tokenizer.json" not in names:
        return ()
    weights = (str(PurePosixPath(graph).with_suffix(".bin")), f"{graph}_data", f"{graph}.data")
    kept = tuple(name for name in weights if name in names and not (graph.endswith(".onnx") and name.endswith(".bin")))
    return (graph, *kept)
