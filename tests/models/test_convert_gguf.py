"""The real small model through the real converter: from the user's own file, and as the default set."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import openvino_genai
import pytest

from slipstream.errors import DataError
from slipstream.models.convert_gguf import IR_FILES, convert_gguf
from slipstream.models.manifest import read_manifest
from slipstream.models.provision import Provisioner
from slipstream.settings import ModelsSettings

pytestmark = pytest.mark.models

CACHE = ModelsSettings().cache_dir
SMOL = "smollm2-135m-instruct"


@pytest.fixture(scope="module")
def gguf() -> Path:
    ready = Provisioner(CACHE).ensure(SMOL, "llm")
    return next((ready.path.parent / "source").glob("*.gguf"))


def test_a_file_of_the_users_becomes_a_directory_that_loads_with_its_chat_template(gguf: Path, tmp_path: Path) -> None:
    mine = tmp_path / "My Model (1).gguf"
    os.symlink(gguf, mine)
    provisioner = Provisioner(tmp_path / "cache")

    ready = provisioner.ensure(str(mine), "llm")

    assert {path.name for path in ready.path.iterdir()} == {*IR_FILES, "config.json", "manifest.json"}
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [mine.name]
    assert (ready.languages, ready.licence, ready.context_tokens) == (frozenset({"en"}), "apache-2.0", 8_192)
    tokenizer = openvino_genai.Tokenizer(ready.path)
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "Hello"}], True)
    assert prompt.endswith("<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n")
    assert json.loads((ready.path / "config.json").read_text())["eos_token_id"] == tokenizer.get_eos_token_id()
    began = time.perf_counter()
    assert provisioner.ensure(str(mine), "llm") == ready
    assert time.perf_counter() - began < 1


def test_a_file_cut_short_is_an_error_and_not_our_crash(gguf: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    shutil.copyfile(gguf, cut)
    os.truncate(cut, 20_000_000)
    (tmp_path / "target").mkdir()

    with pytest.raises(DataError, match=r"cut\.gguf could not be converted"):
        convert_gguf(cut, tmp_path / "target")


@pytest.mark.parametrize(("name", "kind"), [("multilingual-e5-small", "encoder"), (SMOL, "llm")])
def test_the_default_set_is_ready_at_once_and_unaltered(name: str, kind: str) -> None:
    provisioner = Provisioner(CACHE)
    ready = provisioner.ensure(name, "encoder" if kind == "encoder" else "llm")
    manifest = read_manifest(ready.path)

    assert manifest is not None
    assert not manifest.damaged(ready.path)
    assert Provisioner(CACHE, offline=True).ensure(name, ready.kind) == ready
    assert next(status for status in provisioner.list() if status.name == name).ready
