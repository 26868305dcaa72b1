"""Invents text word by word on a load-balanced endpoint and streams it as server-sent events.

A Markov chain: each word is drawn from those that follow the two words before it in `corpus.txt`. A language model
would stand in its place: load it at the top of the module, once for each worker, and yield its tokens.
"""

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from svc import Endpoint

api = Endpoint(name="text-stream", cpu="cpu3c-1-2", workers=(0, 3), max_concurrency=8, idle_timeout=300)

WORDS_MAX = 500
#: A model would take about so long for each word.
THINKING_S = 0.02

Pair = tuple[str, str]


def learn(text: str) -> dict[Pair, list[str]]:
    words = text.split()
    follow: dict[Pair, list[str]] = defaultdict(list)
    for first, second, third in zip(words, words[1:], words[2:]):
        follow[first, second].append(third)
    return dict(follow)


FOLLOW = learn(Path(__file__).with_name("corpus.txt").read_text(encoding="utf-8"))
BEGINNINGS = [pair for pair in FOLLOW if pair[0][:1].isupper()]


def invent(prompt: str, words: int, chance: random.Random) -> Iterator[str]:
    """Words that go on from the prompt; a dead end starts a new sentence."""
    known = [pair for pair in zip(prompt.split(), prompt.split()[1:]) if pair in FOLLOW]
    pair = known[-1] if known else None
    while words > 0:
        if pair is None:
            pair = chance.choice(BEGINNINGS)
            for word in pair[:words]:
                yield word
            words -= 2
            continue
        following = FOLLOW.get(pair)
        if following is None:
            pair = None
            continue
        word = chance.choice(following)
        yield word
        words -= 1
        pair = (pair[1], word)


@api.post("/generate")
async def generate(prompt: str = "", words: int = 60, seed: int | None = None) -> AsyncIterator[str]:
    """Stream `words` invented words; the same seed invents the same."""
    if not 1 <= words <= WORDS_MAX:
        yield event({"error": f"words is 1 to {WORDS_MAX}, not {words}"}, "error")
        return
    count = 0
    for word in invent(prompt, words, random.Random(seed)):
        count += 1
        yield event({"token": f"{word} "})
        await asyncio.sleep(THINKING_S)
    yield event({"words": count}, "done")


@api.get("/health")
def health() -> dict:
    """Tell how much the generator has learned."""
    return {"status": "healthy", "pairs": len(FOLLOW)}


def event(data: dict, kind: str = "") -> str:
    """One server-sent event."""
    name = f"event: {kind}\n" if kind else ""
    return f"{name}data: {json.dumps(data)}\n\n"
