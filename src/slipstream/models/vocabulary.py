"""What the engine's tokenizer knows: the bytes of each token, its control tokens, and those that end an answer."""

from __future__ import annotations

import re

import openvino_genai

from slipstream.models.detokenize import Vocabulary

_CONTROL = re.compile(rb"<[^\s<>]+>|\[[A-Z_/]+\]")
_BYTE_PIECE = re.compile(rb"<0x[0-9A-F]{2}>")
_ENDS = frozenset(
    (b"<|im_end|>", b"<|endoftext|>", b"<|eot_id|>", b"<|end_of_text|>", b"<|end|>", b"</s>", b"<end_of_turn>")
)


def control_tokens(tokenizer: openvino_genai.Tokenizer) -> dict[str, int]:
    """Spelling → id of the tokens that read like control tokens, which a text may not contain as such.

    The tokenizer does not tell which tokens are control tokens; an ordinary token caught here (such as a
    tag in a SentencePiece vocabulary) is merely spelt with more tokens.
    """
    return {piece.decode(): i for piece, i in tokenizer.get_vocab().items() if _CONTROL.fullmatch(piece)}


def vocabulary(tokenizer: openvino_genai.Tokenizer) -> Vocabulary:
    """Token id → bytes; control tokens have none, byte tokens such as <0x0A> keep their spelling."""
    known: dict[bytes, int] = tokenizer.get_vocab()
    pieces = [b""] * (max(known.values()) + 1)
    for piece, i in known.items():
        if not _CONTROL.fullmatch(piece) or _BYTE_PIECE.fullmatch(piece):
            pieces[i] = piece
    return Vocabulary(pieces)


def stop_ids(tokenizer: openvino_genai.Tokenizer) -> frozenset[int]:
    """Ids that end an answer: the model's own end token, and the chat markers of known templates."""
    known: dict[bytes, int] = tokenizer.get_vocab()
    return frozenset({known[piece] for piece in _ENDS if piece in known} | {tokenizer.get_eos_token_id()})


def last_line(error: Exception) -> str:
    """What a foreign error says, without the source position that it begins with."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else type(error).__name__
