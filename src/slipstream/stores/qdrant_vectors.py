"""Vectors ↔ Qdrant's messages, without a Python float for every component.

A packed repeated float is, on the wire, a tag, a length and the array's own little-endian bytes, so the messages
are parsed from arrays and arrays are read out of serialised messages.
Source: Protocol Buffers Documentation, "Encoding", packed repeated fields.
"""

from __future__ import annotations

import numpy as np
from qdrant_client import grpc

from slipstream.types import Matrix, Vector

_TAG = b"\x0a"
"""Field 1, length-delimited: `DenseVector.data` and `MultiDenseVector.vectors` alike."""
_FLOAT_BYTES = 4


def dense_message(vector: Vector) -> grpc.DenseVector:
    message: grpc.DenseVector = grpc.DenseVector.FromString(_field(vector.astype("<f4", copy=False).tobytes()))
    return message


def multi_message(matrix: Matrix) -> grpc.MultiDenseVector:
    """(n, d) with n ≥ 1."""
    rows = matrix.astype("<f4", copy=False)
    row_bytes = rows.shape[1] * _FLOAT_BYTES
    inner = _TAG + _varint(row_bytes)
    head = np.frombuffer(_TAG + _varint(len(inner) + row_bytes) + inner, np.uint8)
    heads = np.broadcast_to(head, (len(rows), len(head)))
    body = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), row_bytes)
    message: grpc.MultiDenseVector = grpc.MultiDenseVector.FromString(np.hstack((heads, body)).tobytes())
    return message


def vector_of(output: grpc.VectorOutput) -> Vector:
    """(d,) float32."""
    return _numbers(output.dense if output.HasField("dense") else grpc.DenseVector(data=output.data))


def matrix_of(output: grpc.VectorOutput) -> Matrix:
    """(n, d) float32, n ≥ 1: every row of a stored multivector has the same length."""
    if not output.HasField("multi_dense"):  # how servers answered before the fields were split by kind
        return _numbers(grpc.DenseVector(data=output.data)).reshape(output.vectors_count, -1)
    raw = output.multi_dense.SerializeToString()
    rows = np.frombuffer(raw, np.uint8).reshape(len(output.multi_dense.vectors), -1)
    row_bytes = len(output.multi_dense.vectors[0].data) * _FLOAT_BYTES
    floats: Matrix = np.ascontiguousarray(rows[:, -row_bytes:]).view("<f4").astype(np.float32, copy=False)
    return floats


def _numbers(message: grpc.DenseVector) -> Vector:
    raw = message.SerializeToString()
    return np.frombuffer(raw, "<f4", offset=len(raw) - len(message.data) * _FLOAT_BYTES).astype(np.float32)


def _field(body: bytes) -> bytes:
    return _TAG + _varint(len(body)) + body


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
