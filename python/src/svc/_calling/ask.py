"""Asks the platform, again where that is safe: connections break, and platforms restart."""

from __future__ import annotations

import http.client
import json
from random import random
from time import monotonic

from svc import this_worker
from svc._calling.connections import Abandoned, Answer, NotSent, Patience, exchange
from svc._calling.limits import RETRY_FIRST_S, RETRY_MAX_S, RETRY_NEVER_REACHED_S, RETRY_STEP_MAX_S
from svc.errors import PlatformError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Mapping

__all__ = ["Abandoned", "Patience", "TimeOver", "ask", "problem_of"]

_reached: set[str] = set()
"""Scheme and host of platforms that have answered once: they are worth waiting for."""


class TimeOver(Exception):
    """The patience of a call ended while it tried to reach the platform."""


def ask(
    method: str,
    base: str,
    path: str,
    *,
    headers: Mapping[str, str],
    body: bytes | Iterable[bytes] | None = None,
    timeout_s: float,
    patience: Patience,
    is_safe: bool,
    streams: bool = False,
) -> Answer:
    """The answer, of any status below 500 but for 429, or one that no repetition helps.

    `is_safe`: asking twice does what asking once does. What is not safe is only repeated when it cannot have been
    received.
    Raises PlatformError when the platform stays away, TimeOver, Abandoned.
    """
    began = monotonic()
    platform = "/".join(base.split("/", 3)[:3])
    delay = RETRY_FIRST_S
    while True:
        try:
            answer = exchange(method, this_worker.moved(base) + path, headers, body, timeout_s, patience, streams)
        except (OSError, http.client.HTTPException) as error:
            if patience.is_over:
                raise TimeOver from None
            if not (is_safe or isinstance(error, NotSent)):
                raise PlatformError(f"the connection to {base} broke off: {_reason(error)}") from None
            again: float | None = delay
            why = _reason(error)
            limit = RETRY_MAX_S if platform in _reached else RETRY_NEVER_REACHED_S
        else:
            _reached.add(platform)
            again = _again_in(answer, is_safe, delay)
            if again is None:
                return answer
            why, limit = problem_of(answer, "")[0], RETRY_MAX_S
        if patience.is_over:
            raise TimeOver
        if monotonic() - began > limit:
            raise PlatformError(
                f"the platform at {base} cannot be reached: {why}. Is it running? See svc platform status."
            )
        patience.pause((again or delay) * (0.5 + random()))
        delay = min(delay * 2, RETRY_STEP_MAX_S)


def _again_in(answer: Answer, is_safe: bool, delay: float) -> float | None:
    """Seconds until the next try; None when the answer is to be taken."""
    if answer.status == 429:  # not accepted, so nothing is done twice
        after = answer.headers.get("retry-after", "")
        return float(after) if after.isdigit() else max(delay, 1.0)
    code = _code(answer)
    if answer.status == 503 and code == "SHUTTING_DOWN":
        return delay
    if is_safe and answer.status in (502, 503, 504) and not code:
        return delay  # a proxy before a platform that is away
    return None


def _code(answer: Answer) -> str:
    return problem_of(answer, "")[1]


def problem_of(answer: Answer, otherwise: str) -> tuple[str, str]:
    """Message and code of an error answer of the platform."""
    try:
        body: Any = json.loads(answer.body)
        error = body.get("error")
        if isinstance(error, dict):  # as OpenAI clients read it
            error = error.get("message")
        return str(error or otherwise), str(body.get("code", ""))
    except (ValueError, AttributeError):
        return otherwise or f"HTTP status {answer.status}", ""


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error) or type(error).__name__
