"""The path of a question, in order and without logic: every line is one stage."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from slipstream.answer.assemble import Assembler
from slipstream.answer.expand import Expander
from slipstream.answer.finish import Finisher
from slipstream.answer.generate import Generator
from slipstream.answer.plan import Planner
from slipstream.answer.rerank import Reranker
from slipstream.answer.rewrite import Rewriter
from slipstream.answer.route import Router
from slipstream.answer.shape import Shaper
from slipstream.call import Call
from slipstream.runtime.within import within
from slipstream.types import Candidates, Event, Found, Passages, Query, Question


class Pipeline:
    """Question in, events out: the evidence first, then tokens, then the finished answer."""

    def __init__(
        self,
        plan: Planner,
        rewrite: Rewriter,
        retrieve: Expander,
        rerank: Reranker,
        shape: Shaper,
        route: Router,
        assemble: Assembler,
        generate: Generator,
        finish: Finisher,
    ) -> None:
        self.plan = plan
        self.rewrite = rewrite
        self.retrieve = retrieve
        self.rerank = rerank
        self.shape = shape
        self.route = route
        self.assemble = assemble
        self.generate = generate
        self.finish = finish

    async def find(self, question: Question, call: Call) -> Passages:
        """The retrieval half: what `search` serves and `answer` begins with. Raises DeadlineExceeded."""
        async with within(call.deadline, "searching"):
            query = self.rewrite(question, call)
            candidates = await self.search(query, question, call)
            return await self.rank(candidates, question, call)

    async def search(self, query: Query, question: Question, call: Call) -> Candidates:
        return await self.retrieve(query, question, call)

    async def rank(self, candidates: Candidates, question: Question, call: Call) -> Passages:
        passages = await self.rerank(candidates, self.shape.widened(question), call)
        return await self.shape(passages, question, call)

    async def answer(self, question: Question, call: Call) -> AsyncGenerator[Event, None]:
        """Yields Found, then Tokens as they come, then Finished; closing it cancels what runs.

        What the request itself is refused for is raised before Found, so that it becomes a status.
        """
        question = self.plan(question, call)
        passages = await self.find(question, call)
        async with aclosing(self.write(question, passages, call)) as events:
            async for event in events:
                yield event

    async def write(self, question: Question, passages: Passages, call: Call) -> AsyncGenerator[Event, None]:
        """The half behind retrieval: what is left to do when the evidence is known."""
        route = self.route(question, passages, call)
        await self.assemble.check(question, passages, route)
        yield Found(passages.query, self.finish.citations(passages))
        prompt = await self.assemble(question, passages, route, call)
        async with aclosing(self.generate(prompt, route, call)) as tokens:
            async for event in self.finish(tokens, prompt, route, call):
                yield event
