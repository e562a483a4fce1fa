"""What runs in a conversion's own process: `python -m … gguf|e5 SOURCE DIRECTORY`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from slipstream.errors import SlipstreamError

REFUSED = 3
"""Exit code: the last line printed is a sentence for the user."""


def main(arguments: list[str]) -> int:
    converter, source, target_dir = arguments[0], Path(arguments[1]), Path(arguments[2])
    try:
        if converter == "e5":
            from slipstream.models.convert_e5 import convert_e5

            convert_e5(source, target_dir)
        else:
            _gguf_to_ir(source, target_dir)
    except SlipstreamError as error:
        print(error.message)
        return REFUSED
    return 0


def _gguf_to_ir(source: Path, target_dir: Path) -> None:
    """OpenVINO GenAI writes the IR beside the GGUF it reads, so it is given a link in the target directory.

    The pipeline saves the model, the tokenizer saves itself and its detokenizer, chat template included.
    """
    import openvino_genai

    link = target_dir / "source.gguf"
    os.symlink(source.resolve(), link)
    save = {"enable_save_ov_model": True}
    openvino_genai.Tokenizer(link, **save)
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.num_kv_blocks = 1
    openvino_genai.ContinuousBatchingPipeline(link, scheduler, "CPU", save)
    link.unlink()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
