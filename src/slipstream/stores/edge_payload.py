"""A passage with the place of its token vectors ↔ Qdrant Edge payload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipstream.stores.edge_protocol import EdgePoint, TokenPlace
from slipstream.stores.payload import TRUTHS, passage_of, passage_payload

__all__ = ["TOKENS", "TRUTHS", "passage_of", "payload_of", "place_of", "place_payload"]

TOKENS = "tokens"
"""Payload key of [file, start, rows]: where the token vectors lie."""


def payload_of(point: EdgePoint) -> dict[str, Any]:
    return {**passage_payload(point.passage), **place_payload(point.place)}


def place_payload(place: TokenPlace) -> dict[str, Any]:
    return {TOKENS: [place.file, place.start, place.rows]}


def place_of(passage_id: str, payload: Mapping[str, Any]) -> TokenPlace:
    file, start, rows = payload[TOKENS]
    return TokenPlace(passage_id, file, start, rows)
