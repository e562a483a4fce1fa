"""IndexedPassage ↔ a Qdrant point: dense vector, BM25 terms, token vectors, and the passage as payload."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from qdrant_client import grpc
from qdrant_client.conversions.conversion import grpc_to_payload, payload_to_grpc

from slipstream.errors import DataError
from slipstream.stores import bm25
from slipstream.stores.payload import TRUTHS, passage_of, passage_payload
from slipstream.stores.qdrant_vectors import dense_message, matrix_of, multi_message, vector_of
from slipstream.types import Encoding, IndexedPassage, Matrix, Passage, TokenVectors

DENSE = "dense"
TERMS = "terms"
TOKENS = "tokens"
SPANS = "spans"
"""Payload key of the token vectors' character spans: base64 of (n, 2) int32, little-endian."""

NO_PAYLOAD = grpc.WithPayloadSelector(enable=False)
PASSAGE_ONLY = grpc.WithPayloadSelector(exclude=grpc.PayloadExcludeSelector(fields=[SPANS, TRUTHS]))
SPANS_ONLY = grpc.WithPayloadSelector(include=grpc.PayloadIncludeSelector(fields=[SPANS]))
EVERYTHING = grpc.WithPayloadSelector(enable=True)
TOKENS_ONLY = grpc.WithVectorsSelector(include=grpc.VectorsSelector(names=[TOKENS]))
DENSE_AND_TOKENS = grpc.WithVectorsSelector(include=grpc.VectorsSelector(names=[DENSE, TOKENS]))


def points_of(passages: Sequence[IndexedPassage]) -> list[grpc.PointStruct]:
    """Milliseconds a batch: belongs on a worker. Raises DataError for a value that the wire cannot carry."""
    return [_point(indexed) for indexed in passages]


def stored_passage(point: grpc.RetrievedPoint) -> Passage:
    return passage_of(point.id.uuid, grpc_to_payload(point.payload))


def stored_tokens(point: grpc.RetrievedPoint) -> TokenVectors:
    """A passage without tokens is stored with one row of zeros, since a multivector has at least one."""
    spans = _spans(point.payload[SPANS].string_value)
    tokens = matrix_of(point.vectors.vectors.vectors[TOKENS])
    return TokenVectors(tokens[: len(spans)], spans)


def stored_whole(point: grpc.RetrievedPoint) -> IndexedPassage:
    vectors = stored_tokens(point)
    dense = vector_of(point.vectors.vectors.vectors[DENSE])
    return IndexedPassage(stored_passage(point), Encoding(dense, vectors.tokens, vectors.offsets))


def dense_query(vector: NDArray[np.float32]) -> grpc.Query:
    return grpc.Query(nearest=grpc.VectorInput(dense=dense_message(vector)))


def token_query(tokens: Matrix) -> grpc.Query:
    return grpc.Query(nearest=grpc.VectorInput(multi_dense=multi_message(tokens)))


def term_query(terms: bm25.SparseTerms) -> grpc.Query:
    return grpc.Query(nearest=grpc.VectorInput(sparse=_sparse(terms)))


def _point(indexed: IndexedPassage) -> grpc.PointStruct:
    passage, encoding = indexed.passage, indexed.encoding
    payload = passage_payload(passage)
    payload[SPANS] = b64encode(encoding.offsets.astype("<i4").tobytes()).decode("ascii")
    tokens = encoding.tokens if len(encoding.tokens) else np.zeros((1, len(encoding.dense)), np.float32)
    vectors = {
        DENSE: grpc.Vector(dense=dense_message(encoding.dense)),
        TERMS: grpc.Vector(sparse=_sparse(bm25.passage_terms(passage.text))),
        TOKENS: grpc.Vector(multi_dense=multi_message(tokens)),
    }
    try:
        return grpc.PointStruct(
            id=grpc.PointId(uuid=passage.id),
            payload=payload_to_grpc(payload),
            vectors=grpc.Vectors(vectors=grpc.NamedVectors(vectors=vectors)),
        )
    except (ValueError, TypeError, UnicodeError):
        raise DataError(
            f"Passage {passage.position} of {passage.document_id} has a value that cannot be stored: "
            "text must be Unicode, and whole numbers must fit into 64 bits."
        ) from None


def _sparse(terms: bm25.SparseTerms) -> grpc.SparseVector:
    return grpc.SparseVector(indices=terms.ids, values=terms.weights)


def _spans(encoded: str) -> NDArray[np.int32]:
    return np.frombuffer(b64decode(encoded), "<i4").astype(np.int32).reshape(-1, 2)
