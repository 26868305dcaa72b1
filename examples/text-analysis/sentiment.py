"""Sentiment of a text on a load-balanced GPU endpoint.

The classifier weighs the words of a small lexicon, so the example needs no model to
download. A real one would load its model at the top of the module, once for each
worker, and move it to `device()`.
"""

import math
import re

from svc import Endpoint, GpuGroup

api = Endpoint(name="sentiment", gpu=GpuGroup.ANY, workers=(0, 2), idle_timeout=300)

WEIGHTS = {
    "amazing": 2.0, "awful": -2.0, "bad": -1.5, "beautiful": 1.5, "best": 2.0,
    "boring": -1.5, "broken": -1.5, "cold": -0.5, "cruel": -1.5, "dark": -0.5,
    "dead": -1.5, "delight": 1.5, "despair": -2.0, "enjoy": 1.5, "excellent": 2.0,
    "fail": -1.5, "failed": -1.5, "fine": 0.5, "good": 1.0, "grateful": 1.5,
    "great": 1.5, "happy": 1.5, "hate": -2.0, "hope": 1.0, "horrible": -2.0,
    "joy": 1.5, "kind": 1.0, "light": 0.5, "love": 2.0, "loved": 2.0,
    "nice": 1.0, "pain": -1.5, "perfect": 2.0, "poor": -1.0, "sad": -1.5,
    "slow": -0.5, "sorry": -0.5, "terrible": -2.0, "ugly": -1.5, "wonderful": 2.0,
    "worst": -2.0, "wrong": -1.0,
}  # fmt: skip
NEGATIONS = {"no", "not", "never", "hardly", "don't", "doesn't", "didn't", "isn't", "wasn't", "can't", "won't"}
NEUTRAL_BELOW = 0.2


def device() -> str:
    """Return "GPU" where torch sees one, else "CPU"."""
    try:
        import torch
    except ImportError:
        return "CPU"
    return "GPU" if torch.cuda.is_available() else "CPU"


def polarity(text: str) -> float:
    """Return the sum of the words' weights; a negation turns the word after it round."""
    total = 0.0
    negated = False
    for word in re.findall(r"[a-z']+", text.lower()):
        weight = WEIGHTS.get(word, 0.0)
        total += -weight if negated else weight
        negated = word in NEGATIONS
    return total


@api.post("/sentiment")
def sentiment(text: str) -> dict:
    """Classify a text as POSITIVE, NEGATIVE or NEUTRAL with a score from 0 to 1."""
    total = polarity(text)
    confidence = 1 / (1 + math.exp(-abs(total)))
    if abs(total) < NEUTRAL_BELOW:
        label, score = "NEUTRAL", 1 - abs(total)
    else:
        label, score = ("POSITIVE" if total > 0 else "NEGATIVE"), confidence
    return {
        "text": text,
        "sentiment": {"label": label, "score": round(score, 4)},
        "device": device(),
    }
