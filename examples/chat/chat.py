"""A chat endpoint for clients of the OpenAI API. Its model is a stand-in, so that nothing has to be fetched: it says what it learned to say after
a word. Load a real one in `__init__`, once for each worker, and yield its tokens from `answer`."""

import random
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator

from svc import Endpoint

MODEL = "stand-in"
WORDS_MAX = 200
LEARNED = """the queue holds a job until a worker takes it . a worker takes a job when it is ready and ends when it is idle . the platform starts a
worker when a job waits and the worker is ready in a moment . a job that waits is kept on the disk and a crash does not lose it ."""


@Endpoint(name="chat", cpu="cpu3c-1-2", workers=(0, 2), max_concurrency=8)
class Chat:
    def __init__(self):
        words = LEARNED.split()
        self.follow: dict[str, list[str]] = defaultdict(list)
        for word, after in zip(words, words[1:]):
            self.follow[word].append(after)

    def generate(self, openai_route: str, openai_input: dict):
        if openai_route == "/v1/models":
            yield {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "examples"}]}
            return
        question = openai_input["messages"][-1]["content"]
        words = self.answer(question, min(openai_input.get("max_tokens") or 20, WORDS_MAX))
        if openai_input.get("stream"):
            for word in words:
                yield response("chat.completion.chunk", delta={"role": "assistant", "content": f"{word} "})
            yield response("chat.completion.chunk", delta={}, finish_reason="stop")
            return
        said = list(words)
        asked = len(question.split())
        usage = {"prompt_tokens": asked, "completion_tokens": len(said), "total_tokens": asked + len(said)}
        message = {"role": "assistant", "content": " ".join(said)}
        yield {**response("chat.completion", message=message, finish_reason="stop"), "usage": usage}

    def answer(self, question: str, count: int) -> Iterator[str]:
        """The same question gets the same answer."""
        chance = random.Random(question)
        known = [word for word in question.lower().split() if word in self.follow]
        word = known[-1] if known else "the"
        for _ in range(count):
            word = chance.choice(self.follow.get(word) or ["the"])
            yield word


def response(kind: str, finish_reason: str | None = None, **choice) -> dict:
    choices = [{"index": 0, "finish_reason": finish_reason, **choice}]
    made = {"id": f"chatcmpl-{uuid.uuid4().hex[:12]}", "object": kind, "created": int(time.time()), "model": MODEL}
    return {**made, "choices": choices}
