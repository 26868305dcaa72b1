"""A job by its id alone."""

from __future__ import annotations

from svc import this_worker
from svc._calling import discovery, jobs, settings
from svc._calling.connections import Patience
from svc._calling.deployed import client_of
from svc._calling.job import Job
from svc.errors import CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def find_job(job_id: str, endpoint: str | None, url: str | None, api_key: str | None) -> Job[Any]:
    """`svc.job(…)`."""
    patience = Patience()
    if endpoint is not None:
        targets = [client_of(endpoint, url, api_key).target(patience)]
    elif this_worker.WORKER is not None and url is None and api_key is None:
        raise CallError(f"job {job_id!r} in a worker: name its endpoint, as in svc.job(id, endpoint=…)")
    else:
        targets = discovery.queues(settings.platform(url, api_key), patience)
    target, job = jobs.find(job_id, targets, patience)
    return Job(target, job)
