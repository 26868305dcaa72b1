"""Jobs of queue-based endpoints: handed in once, followed by long polls, and told as a result or an exception.

A submission carries an idempotency key of its own, so it can be repeated after a broken connection without ever
making a second job; what follows only reads.
"""

from __future__ import annotations

import json
import os
from time import monotonic
from urllib.parse import quote

from svc._calling import discovery
from svc._calling.ask import Abandoned, TimeOver, ask, problem_of
from svc._calling.connections import Answer, Patience
from svc._calling.discovery import Target
from svc._calling.limits import ANSWER_LATE_S, CANCEL_MAX_S, POLL_WAIT_MIN_MS, POLL_WAIT_MS, RUN_BODY_MAX_BYTES
from svc._calling.outgoing import trace_headers
from svc._values import codec, tagged
from svc.errors import CallError, JobCancelled, JobNotFound, JobTimedOut, PlatformError, RemoteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

FINAL = frozenset(("COMPLETED", "FAILED", "TIMED_OUT", "CANCELLED"))


class Submission:
    """One job that is or will be; `target` becomes known with the first request."""

    __slots__ = ("_find", "body", "job_id", "key", "target", "trace")

    def __init__(self, find: Callable[[Patience], Target], body: bytes, key: str | None = None) -> None:
        self._find = find
        self.body = body
        self.trace = trace_headers()
        self.key = key or os.urandom(16).hex()
        self.target: Target | None = None
        self.job_id = ""

    def submit(self, patience: Patience, path: str = "/run", timeout_s: float = ANSWER_LATE_S) -> Answer:
        """The platform's answer to the job. An endpoint that has gone is looked up once more."""
        answer = self._post(patience, path, timeout_s)
        if answer.status == 404 and problem_of(answer, "")[1] == "ENDPOINT_NOT_FOUND":
            assert self.target is not None
            discovery.forget(self.target)
            self.target = None
            answer = self._post(patience, path, timeout_s)
        assert self.target is not None
        check(answer, self.target.name)
        return answer

    def _post(self, patience: Patience, path: str, timeout_s: float) -> Answer:
        target = self.target = self.target or self._find(patience)
        if not target.is_queue:
            raise CallError(f"endpoint {target.name!r} is load-balanced: call its routes", endpoint=target.name)
        return ask(
            "POST",
            target.url,
            path,
            headers={**target.headers, **self.trace, "Idempotency-Key": self.key},
            body=self.body,
            timeout_s=timeout_s,
            patience=patience,
            is_safe=True,
        )

    def start(self, patience: Patience) -> dict[str, Any]:
        """Hands the job in; `{"id", "status"}`."""
        job: dict[str, Any] = codec.decode(self.submit(patience).body)
        self.job_id = job["id"]
        return job

    def run(self, patience: Patience, hints: tuple[Any, ...]) -> Any:
        """The result. Raises RemoteError and its kin, TimeOver, Abandoned; who stops waiting cancels the job."""
        try:
            wait_ms = poll_ms(patience)
            answer = self.submit(patience, f"/runsync?wait={wait_ms}", wait_ms / 1000 + ANSWER_LATE_S)
            while True:
                job = read_job(answer, hints)
                self.job_id = job["id"]
                assert self.target is not None
                if job["status"] in FINAL:
                    return outcome(job, self.target.name)
                if patience.is_over:
                    raise TimeOver
                answer = follow(self.target, self.job_id, patience)
        except BaseException as error:
            if isinstance(error, (TimeOver, Abandoned)) or not isinstance(error, Exception):
                self.cancel_quietly()
            raise

    def cancel_quietly(self) -> None:
        """Nobody waits any more. When the answer with its id never came, the idempotency key finds the job."""
        if self.target is None:
            return
        patience = Patience(monotonic() + CANCEL_MAX_S)
        try:
            if not self.job_id:
                self.start(patience) if len(self.body) <= RUN_BODY_MAX_BYTES else self._find_large(patience)
            cancel(self.target, self.job_id, patience)
        except (CallError, TimeOver, Abandoned, OSError):
            pass  # its execution time-out ends it

    def _find_large(self, patience: Patience) -> None:
        answer = self.submit(patience, f"/runsync?wait={POLL_WAIT_MIN_MS}")
        self.job_id = codec.decode(answer.body)["id"]


def body_of(input: dict[str, Any], **other: Any) -> bytes:
    """The body of /run. `input` has its tags; of the others, what is set counts."""
    return codec.encode({"input": input, **{name: value for name, value in other.items() if value}}, "input")


def poll_ms(patience: Patience) -> int:
    left = patience.left()
    return POLL_WAIT_MS if left is None else max(POLL_WAIT_MIN_MS, min(POLL_WAIT_MS, int(left * 1000)))


def follow(target: Target, job_id: str, patience: Patience) -> Answer:
    """The job as soon as it is final, or as it is when the poll ends."""
    wait_ms = poll_ms(patience)
    return _get(target, f"/status-sync/{quote(job_id)}?wait={wait_ms}", wait_ms / 1000 + ANSWER_LATE_S, patience)


def look(target: Target, job_id: str, patience: Patience) -> Answer:
    """The job as it is."""
    return _get(target, f"/status/{quote(job_id)}", ANSWER_LATE_S, patience)


def _get(target: Target, path: str, timeout_s: float, patience: Patience) -> Answer:
    answer = ask("GET", target.url, path, headers=target.headers, timeout_s=timeout_s, patience=patience, is_safe=True)
    check(answer, target.name)
    return answer


def cancel(target: Target, job_id: str, patience: Patience) -> str:
    """Its status afterwards: CANCELLED, or the one it ended with before."""
    answer = ask(
        "POST",
        target.url,
        f"/cancel/{quote(job_id)}",
        headers=target.headers,
        body=b"",
        timeout_s=ANSWER_LATE_S,
        patience=patience,
        is_safe=True,
    )
    check(answer, target.name)
    return str(codec.decode(answer.body)["status"])


def logs(target: Target, job_id: str, tail: int, patience: Patience) -> list[str]:
    """What its workers printed for it."""
    path = f"/logs/{quote(target.id)}?job={quote(job_id)}&tail={tail}"
    answer = ask(
        "GET", target.platform, path, headers=target.headers, timeout_s=ANSWER_LATE_S, patience=patience, is_safe=True
    )
    check(answer, target.name)
    lines = [json.loads(line) for line in answer.body.splitlines() if line]
    return [line["text"] for line in lines if line["stream"] != "progress"]


def find(job_id: str, targets: list[Target], patience: Patience) -> tuple[Target, dict[str, Any]]:
    """An id does not say its endpoint: each is asked. Raises JobNotFound."""
    for target in targets:
        try:
            return target, read_job(look(target, job_id, patience), ())
        except JobNotFound:
            continue
        except PlatformError as error:
            if error.code != "ENDPOINT_NOT_FOUND":  # removed meanwhile
                raise
    where = f"endpoint {targets[0].name!r}" if len(targets) == 1 else f"none of {len(targets)} queue-based endpoints"
    has = "has no" if len(targets) == 1 else "has a"
    raise JobNotFound(f"{where} {has} job {job_id!r}: results are kept for a limited time", endpoint="")


def check(answer: Answer, endpoint: str) -> None:
    """Raises what an error answer of the platform means."""
    if answer.status == 200:
        return
    message, code = problem_of(answer, "")
    if code == "JOB_NOT_FOUND":
        raise JobNotFound(message, endpoint=endpoint)
    raise PlatformError(message, status=answer.status, code=code, endpoint=endpoint)


def read_job(answer: Answer, hints: tuple[Any, ...]) -> dict[str, Any]:
    """The job object with its output as Python has it."""
    job: dict[str, Any] = codec.decode(answer.body)
    if tagged.has_tags(answer.body) and "output" in job:
        job["output"] = read_value(job["output"], hints)
    return job


def read_value(value: Any, hints: tuple[Any, ...]) -> Any:
    """A result or chunk as Python has it. Raises CallError."""
    try:
        return tagged.decode(value, hints)
    except tagged.BadTag as error:
        raise CallError(f"the result cannot be read: {error}") from None


def outcome(job: dict[str, Any], endpoint: str) -> Any:
    """The output of a completed job, else its exception."""
    error = failure(job, endpoint)
    if error is not None:
        raise error
    return job.get("output")


def failure(job: dict[str, Any], endpoint: str) -> RemoteError | None:
    """The exception that a final job stands for; None for a completed one."""
    status = job["status"]
    if status == "COMPLETED":
        return None
    fields = failure_fields(
        job.get("error") or {"TIMED_OUT": "execution timeout", "CANCELLED": "cancelled"}.get(status, "")
    )
    kind = {"TIMED_OUT": JobTimedOut, "CANCELLED": JobCancelled}.get(status, RemoteError)
    if fields["error_type"] == "svc.JobTimedOut":
        kind = JobTimedOut  # it waited for another one
    return kind(**fields, job_id=str(job.get("id", "")), endpoint=endpoint)


def failure_fields(error: Any) -> dict[str, Any]:
    """error_message, error_type and error_traceback of a failure: JSON, or the text of `{"error": text}`."""
    try:
        fields = json.loads(error) if isinstance(error, str) else error
    except ValueError:
        fields = None
    if not isinstance(fields, dict) or "error_message" not in fields:
        fields = {"error_message": error if isinstance(error, str) else json.dumps(error)}
    return {
        "error_message": str(fields["error_message"]),
        "error_type": str(fields.get("error_type", "")),
        "error_traceback": str(fields.get("error_traceback", "")),
    }
