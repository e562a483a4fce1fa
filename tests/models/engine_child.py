"""Run as a process that a test kills: the small model in the middle of an answer; names its engine's process."""

from __future__ import annotations

import asyncio

from slipstream.call import Call, Deadline
from slipstream.models.llm_local import OpenVinoLanguageModel
from slipstream.models.provision import Provisioner
from slipstream.settings import EngineSettings, ModelsSettings
from slipstream.types import Message, Sampling


async def serve() -> None:
    directory = Provisioner(ModelsSettings().cache_dir).ensure("smollm2-135m-instruct", "llm").path
    settings = EngineSettings.model_validate({"kv_cache_gib": 0.05, "max_sequences": 2})
    model = OpenVinoLanguageModel(directory, name="smol", languages=frozenset({"en"}), settings=settings)
    await model.warm_up()
    story = (Message("user", "Tell me a long story about a lighthouse."),)
    async with model.generate(story, Sampling(max_tokens=1_500), Call("tenant", Deadline(None))) as stream:
        await anext(stream)
        print(model.process_id(), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
