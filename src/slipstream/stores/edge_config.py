"""IndexSpec → the configuration of a Qdrant Edge shard."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import qdrant_edge as edge

from slipstream.stores.edge_plan import GRAPH_ABOVE, Way
from slipstream.stores.index import IndexSpec, SearchSpec

DENSE = "dense"
TERMS = "terms"

_PLAIN_KB = 10_000
"""Size of vectors (6,600 of 384 dimensions) from which a segment gets a graph."""

_COPIES: Mapping[str, edge.QuantizationConfigType] = MappingProxyType(
    {
        "scalar": edge.ScalarQuantizationConfig(edge.ScalarType.Int8, quantile=0.99, memory=edge.Memory.Pinned),
        "product": edge.ProductQuantizationConfig(edge.CompressionRatio.X16, memory=edge.Memory.Pinned),
        "binary": edge.BinaryQuantizationConfig(memory=edge.Memory.Pinned),
        "turbo": edge.TurboQuantQuantizationConfig(bits=edge.TurboQuantBitSize.Bits4, memory=edge.Memory.Pinned),
    }
)


def shard_config(index: IndexSpec, dimensions: int, *, new: bool) -> edge.EdgeConfig:
    """`new` also says how terms are kept; a shard that exists keeps them as it does.

    With a compressed copy in memory the full vectors are left on disk, for rescoring.
    """
    copy = _COPIES.get(index.quantization)
    dense = edge.EdgeVectorParams(
        size=dimensions,
        distance=edge.Distance.Cosine,
        quantization_config=copy,
        memory=edge.Memory.Cold if copy is not None else edge.Memory.Cached,
    )
    return edge.EdgeConfig(
        vectors={DENSE: dense},
        sparse_vectors={TERMS: edge.EdgeSparseVectorParams()} if new else None,
        hnsw_config=edge.HnswIndexConfig(
            m=index.m if index.kind == "hnsw" else 0,
            ef_construct=index.ef_construct,
            full_scan_threshold=max(1, GRAPH_ABOVE * 4 * dimensions // 1024),
        ),
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=_PLAIN_KB),
    )


def search_params(search: SearchSpec, limit: int, way: Way, *, packed: bool) -> edge.SearchParams:
    """`packed` says that a compressed copy exists."""
    copy = edge.QuantizationSearchParams(rescore=search.rescore, oversampling=search.oversampling) if packed else None
    return edge.SearchParams(
        hnsw_ef=max(search.ef * _WIDER if way == "spread" else search.ef, limit),
        exact=search.exact or way == "scan",
        quantization=copy,
        acorn=_ACORN if way == "spread" else None,
    )


_ACORN = edge.AcornSearchParams(enable=True, max_selectivity=1.0)
"""Also looks at neighbours of neighbours. Source: Patel et al., "ACORN", SIGMOD 2024."""
_WIDER = 2
"""With ef as it is, .95 to .99 of the nearest were found where a filter left a tenth to a half; with twice that, .98
to 1."""
