"""The hub: which files of a repository are taken, and what happens when it hides or is not there."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from slipstream.errors import ConfigError, Unavailable
from slipstream.models.hub import HubRef, fetch_hub, parse_hub_ref, wanted_files
from slipstream.models.ready import ModelKind, Progress, ignore_progress

pytest.importorskip("huggingface_hub")

LLM_IR = {f"openvino_{part}.{suffix}" for part in ("model", "tokenizer", "detokenizer") for suffix in ("xml", "bin")}
FILES = {name: name.encode() * 100 for name in (*LLM_IR, "config.json", "pytorch_model.bin", "README.md")}
REF = HubRef("someone/small", None)


class MiniHub(BaseHTTPRequestHandler):
    """As much of the hub's API as a download takes."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        if self.path.startswith(f"/api/models/{REF.repository}/tree/main"):
            tree = [{"type": "file", "path": name, "size": len(data), "oid": "0"} for name, data in FILES.items()]
            self._send(200, json.dumps(tree).encode(), body)
        elif self.path.startswith(f"/{REF.repository}/resolve/"):
            self._send(200, FILES[self.path.split("/")[5]], body)
        else:
            self._send(404 if self.path != "/" else 200, b"", body)

    def _send(self, status: int, data: bytes, body: bool) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("X-Repo-Commit", "0" * 40)
        if status == 404:
            self.send_header("X-Error-Code", "RepoNotFound")
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
        pass


@pytest.fixture
def hub() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), MiniHub) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_takes_what_the_model_needs_and_nothing_that_can_hold_code(hub: str, tmp_path: Path) -> None:
    seen: list[Progress] = []
    files = fetch_hub(REF, "llm", tmp_path, seen.append, endpoint=hub)

    assert {file.name for file in files} == LLM_IR | {"config.json"}
    assert all(file.read_bytes() == FILES[file.name] for file in files)
    assert not (tmp_path / "pytorch_model.bin").exists()
    total = sum(len(FILES[file.name]) for file in files)
    assert seen[-1] == Progress("hf:someone/small", "fetch", total, total)


def test_a_repository_that_is_not_there(hub: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no repository someone/else that you may read"):
        fetch_hub(HubRef("someone/else", None), "llm", tmp_path, ignore_progress, endpoint=hub)


def test_a_hub_that_cannot_be_reached(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(Unavailable, match="could not be reached"):
        fetch_hub(REF, "llm", tmp_path, ignore_progress, endpoint=f"http://127.0.0.1:{port}")


def test_references() -> None:
    assert parse_hub_ref("hf:a/b") == HubRef("a/b", None)
    assert parse_hub_ref("hf:a/b/c-Q4_0.gguf") == HubRef("a/b", "c-Q4_0.gguf")
    for wrong in ("hf:a", "hf:/b", "hf:a/../b"):
        with pytest.raises(ConfigError, match="Write hf:organisation/repository"):
            parse_hub_ref(wrong)


@pytest.mark.parametrize(
    ("kind", "names", "wanted"),
    [
        ("llm", {"x.gguf", "config.json"}, ("x.gguf",)),
        (
            "encoder",
            {"onnx/model.onnx", "model.safetensors", "pytorch_model.bin", "tokenizer.json", "1_Pooling/config.json"},
            ("onnx/model.onnx", "1_Pooling/config.json", "tokenizer.json"),
        ),
        (
            "encoder",
            {"onnx/model.onnx", "openvino/openvino_model.xml", "openvino/openvino_model.bin", "tokenizer.json"},
            ("openvino/openvino_model.xml", "openvino/openvino_model.bin", "tokenizer.json"),
        ),
        ("encoder", {"model.onnx", "model.onnx_data", "tokenizer.json"}, None),
    ],
)
def test_choice_of_files(kind: ModelKind, names: set[str], wanted: tuple[str, ...] | None) -> None:
    assert wanted_files(REF, kind, frozenset(names)) == (wanted or ("model.onnx", "model.onnx_data", "tokenizer.json"))


@pytest.mark.parametrize(
    ("kind", "names", "says"),
    [
        ("llm", {"a.gguf", "b.gguf"}, r"several GGUF files; add one to the name: /a\.gguf, /b\.gguf"),
        ("llm", {"pytorch_model.bin", "model.safetensors"}, "an OpenVINO IR or a GGUF file is needed"),
        ("encoder", {"onnx/model.onnx"}, "tokenizer.json and an OpenVINO IR or ONNX"),
    ],
)
def test_no_choice(kind: ModelKind, names: set[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        wanted_files(REF, kind, frozenset(names))
