"""A job as a notebook shows it."""

from __future__ import annotations

from html import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SHOWN_MAX_CHARS = 500


def job_table(job: dict[str, Any], endpoint: str, note: str) -> str:
    """HTML of what is known of it; `note` says why it may be old, or is empty."""
    rows = [("job", job.get("id", "")), ("endpoint", endpoint), ("status", job.get("status") or "unknown")]
    if job.get("workerId"):
        rows.append(("worker", job["workerId"]))
    if isinstance(job.get("delayTime"), (int, float)):
        rows.append(("waited", f"{job['delayTime']} ms"))
    if job.get("executionTime"):
        rows.append(("ran", f"{job['executionTime']} ms"))
    if job.get("retries"):
        rows.append(("retries", job["retries"]))
    if job.get("output") is not None:
        rows.append(("output", _short(repr(job["output"]))))
    if job.get("error"):
        from svc._calling.jobs import failure_fields

        rows.append(("error", _short(failure_fields(job["error"])["error_message"])))
    if note:
        rows.append(("note", note))
    cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX_CHARS else f"{text[:_SHOWN_MAX_CHARS]}…"
