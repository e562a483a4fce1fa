"""How dense vectors are indexed and searched: what an operator tunes, in the field's terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Protocol, runtime_checkable

from slipstream.settings import IndexKind, IndexSettings, Quantization
from slipstream.stores.base import Store
from slipstream.types import Hit, Scope, Vector

__all__ = ["IndexKind", "IndexSpec", "Quantization", "SearchSpec", "TunableStore"]


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """What is built. Only the fields of its kind count."""

    kind: IndexKind = "hnsw"
    m: int = 16
    """HNSW: edges per node."""
    ef_construct: int = 128
    """HNSW: candidates looked at while building."""
    nlist: int = 1_024
    """IVF: clusters."""
    pq_m: int = 48
    """IVF_PQ: sub-vectors, a divisor of the dimensions."""
    pq_bits: int = 8
    """IVF_PQ: bits per sub-vector."""
    quantization: Quantization = "none"
    """HNSW and flat: a compressed copy that the search reads first."""

    def wanted(self, settings: IndexSettings) -> IndexSpec:
        """This, with what the settings insist on."""
        said = settings.model_dump(exclude_none=True)
        return replace(self, **{f.name: said[f.name] for f in fields(self) if f.name in said})

    def __str__(self) -> str:
        packed = "" if self.quantization == "none" else f" + {self.quantization}"
        match self.kind:
            case "hnsw":
                return f"hnsw m={self.m} ef_construct={self.ef_construct}{packed}"
            case "ivf_flat":
                return f"ivf_flat nlist={self.nlist}"
            case "ivf_pq":
                return f"ivf_pq nlist={self.nlist} m={self.pq_m} bits={self.pq_bits}"
            case "flat":
                return f"flat{packed}"


@dataclass(frozen=True, slots=True)
class SearchSpec:
    """What one search spends. Only the fields of the index's kind count."""

    ef: int = 64
    """HNSW: candidates looked at."""
    nprobe: int = 16
    """IVF: clusters looked at."""
    rescore: bool = True
    """Whether what the compressed copy found is scored again with the full vectors."""
    oversampling: float = 2.0
    """How many times the limit the compressed copy gives to rescoring."""
    exact: bool = False
    """Brute force: the truth that recall is measured against."""

    def wanted(self, settings: IndexSettings) -> SearchSpec:
        """This, with what the settings insist on."""
        said = settings.model_dump(exclude_none=True)
        return replace(self, **{f.name: said[f.name] for f in fields(self) if f.name in said})

    def describe(self, index: IndexSpec) -> str:
        """The fields that count for such an index."""
        if self.exact:
            return "exact"
        said = [f"ef={self.ef}"] if index.kind == "hnsw" else []
        said += [f"nprobe={self.nprobe}"] if index.kind in {"ivf_flat", "ivf_pq"} else []
        if index.quantization != "none" and index.kind in {"hnsw", "flat"}:
            said.append(f"rescored from {self.oversampling:g}x" if self.rescore else "not rescored")
        return " ".join(said) or "scan"


@runtime_checkable
class TunableStore(Store, Protocol):
    """A store whose dense index can be measured, changed and rebuilt while it serves."""

    @property
    def index(self) -> IndexSpec:
        """What is built now."""
        ...

    @property
    def search_spec(self) -> SearchSpec:
        """What searches spend unless told otherwise."""
        ...

    def offers(self) -> Sequence[IndexSpec]:
        """Kinds and parameters worth trying here, cheapest to build first."""
        ...

    async def search_dense_with(self, vector: Vector, scope: Scope, limit: int, search: SearchSpec) -> list[Hit]:
        """`search_dense`, spending what is said."""
        ...

    async def reindex(self, index: IndexSpec) -> None:
        """Builds the index beside the present one and changes over; searches and writes go on meanwhile.

        Durable on return; when it raises, the present index goes on. Raises InvalidRequest for an index that the
        store does not offer.
        """
        ...

    async def spend(self, search: SearchSpec) -> None:
        """Makes it what searches spend from now on, also after a restart."""
        ...
