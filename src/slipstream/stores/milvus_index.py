"""IndexSpec and SearchSpec in Milvus's terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.errors import ConfigError, InvalidRequest
from slipstream.stores.index import IndexKind, IndexSpec, SearchSpec

METRIC = "IP"
"""Vectors are normalised, so the inner product is the cosine."""
_TYPES: dict[IndexKind, str] = {"flat": "FLAT", "hnsw": "HNSW", "ivf_flat": "IVF_FLAT", "ivf_pq": "IVF_PQ"}
_KINDS = {name: kind for kind, name in _TYPES.items()}
_MAX_EF = 32_768


def check_offered(index: IndexSpec, dimensions: int) -> None:
    """Raises InvalidRequest for what Milvus cannot build."""
    if index.quantization != "none":
        raise InvalidRequest(
            f"Milvus has no {index.quantization} quantisation beside an index: leave it out, or use ivf_pq."
        )
    if index.kind == "ivf_pq" and dimensions % index.pq_m:
        raise InvalidRequest(f"IVF_PQ splits {dimensions} dimensions evenly: {index.pq_m} sub-vectors do not fit.")


def offered(dimensions: int) -> Sequence[IndexSpec]:
    sub_vectors = [dimensions // width for width in (8, 4) if dimensions % width == 0]
    return (
        IndexSpec(kind="flat"),
        IndexSpec(kind="ivf_flat", nlist=128),
        IndexSpec(kind="ivf_flat", nlist=1_024),
        *(IndexSpec(kind="ivf_pq", nlist=128, pq_m=pieces) for pieces in sub_vectors),
        IndexSpec(kind="hnsw", m=16, ef_construct=128),
        IndexSpec(kind="hnsw", m=32, ef_construct=256),
    )


def index_params(index: IndexSpec) -> dict[str, Any]:
    """Arguments of `IndexParams.add_index`."""
    build: dict[IndexKind, dict[str, int]] = {
        "flat": {},
        "hnsw": {"M": index.m, "efConstruction": index.ef_construct},
        "ivf_flat": {"nlist": index.nlist},
        "ivf_pq": {"nlist": index.nlist, "m": index.pq_m, "nbits": index.pq_bits},
    }
    return {"index_type": _TYPES[index.kind], "metric_type": METRIC, "params": build[index.kind]}


def index_of(described: Mapping[str, Any]) -> IndexSpec:
    """What `describe_index` says, as a spec."""
    kind = _KINDS.get(described["index_type"])
    if kind is None:
        raise ConfigError(f"The dense index is of kind {described['index_type']}, which was not made here.")
    names = {"m": "M", "ef_construct": "efConstruction", "nlist": "nlist", "pq_m": "m", "pq_bits": "nbits"}
    known = {"hnsw": ("m", "ef_construct"), "ivf_flat": ("nlist",), "ivf_pq": ("nlist", "pq_m", "pq_bits"), "flat": ()}
    found = {field: int(described[names[field]]) for field in known[kind] if names[field] in described}
    return IndexSpec(kind=kind, quantization="none", **found)


def search_params(index: IndexSpec, search: SearchSpec, limit: int) -> dict[str, Any]:
    spent: dict[IndexKind, dict[str, int]] = {
        "flat": {},
        "hnsw": {"ef": min(_MAX_EF, max(search.ef, limit))},
        "ivf_flat": {"nprobe": min(search.nprobe, index.nlist)},
        "ivf_pq": {"nprobe": min(search.nprobe, index.nlist)},
    }
    return {"metric_type": METRIC, "params": spent[index.kind]}
