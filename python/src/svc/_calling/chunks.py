"""The chunks of a job, each once, also when the connection breaks in between.

submit ── /stream as server-sent events ──▶ chunk 1, chunk 2, …, status
             ▲                                 └─ broken off ─┐
             └── "I had the one numbered 17" (Last-Event-ID) ─┘

Numbers are the platform's: they rise, with gaps, and say nothing of how many chunks there were.
"""

from __future__ import annotations

from http.client import HTTPException
from urllib.parse import quote

from svc._calling.ask import Abandoned, TimeOver, ask
from svc._calling.connections import Patience, Stream
from svc._calling.discovery import Target
from svc._calling.jobs import Submission, check, failure, look, read_job, read_value
from svc._calling.limits import ANSWER_LATE_S, POLL_WAIT_MS, RETRY_FIRST_S
from svc._values import codec, tagged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator


def call_chunks(submission: Submission, hints: tuple[Any, ...], patience: Patience) -> Iterator[Any]:
    """Chunks of a job that is handed in now and cancelled when its caller goes away."""
    try:
        submission.start(patience)
        assert submission.target is not None
        yield from job_chunks(submission.target, submission.job_id, hints, patience)
    except BaseException as error:
        if isinstance(error, (TimeOver, Abandoned)) or not isinstance(error, Exception):
            submission.cancel_quietly()
        raise


def job_chunks(target: Target, job_id: str, hints: tuple[Any, ...], patience: Patience) -> Iterator[Any]:
    """All chunks from the first one on. Raises RemoteError and its kin at the end of a job that failed."""
    last = "0"
    while True:
        stream = _open(target, job_id, last, patience)
        before = last
        try:
            for event, number, data in _events(stream):
                if event == "status":
                    if codec.decode(data)["status"] == "COMPLETED":
                        return
                    error = failure(read_job(look(target, job_id, patience), hints), target.name)
                    if error is not None:
                        raise error
                    return
                last = number
                chunk = codec.decode(data)["output"]
                yield read_value(chunk, hints) if tagged.has_tags(data) else chunk
        except (OSError, HTTPException):
            pass  # broken off
        finally:
            stream.close()
        if patience.is_over:
            raise TimeOver
        if last == before:
            patience.pause(RETRY_FIRST_S)


def _open(target: Target, job_id: str, last: str, patience: Patience) -> Stream:
    answer = ask(
        "GET",
        target.url,
        f"/stream/{quote(job_id)}",
        headers={**target.headers, "Accept": "text/event-stream", "Last-Event-ID": last},
        timeout_s=POLL_WAIT_MS / 1000 + ANSWER_LATE_S,
        patience=patience,
        is_safe=True,
        streams=True,
    )
    check(answer, target.name)
    assert answer.stream is not None
    return answer.stream


def _events(stream: Stream) -> Iterator[tuple[str, str, bytes]]:
    """(event, id, data) of server-sent events, "" for those without a name, until the connection ends."""
    event, number, data = "", "", b""
    while line := stream.line():
        text = line.rstrip(b"\r\n")
        if not text:
            if data:
                yield event, number, data
            event, data = "", b""
        elif text.startswith(b"data:"):
            data += text[5:].lstrip()
        elif text.startswith(b"event:"):
            event = text[6:].strip().decode()
        elif text.startswith(b"id:"):
            number = text[3:].strip().decode()
