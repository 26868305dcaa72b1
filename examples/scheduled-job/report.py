"""A job that runs every hour, and a route that shows what it found last. The report lies in a volume, so it outlives the worker that made it."""

import json
import shutil
import time
from pathlib import Path

from svc import Endpoint, Retries

REPORT = Path("/volumes/reports/latest.json")


@Endpoint(
    name="hourly",
    cpu="cpu3c-1-2",
    workers=(0, 1),
    volume="reports",
    every="1h",
    overlap="skip",
    retries=Retries(2, delay="30s"),
)
def hourly() -> dict:
    """How full the disk under the volume is."""
    disk = shutil.disk_usage(REPORT.parent)
    report = {"at": int(time.time()), "free_gb": round(disk.free / 1e9, 1), "used_percent": round(100 * disk.used / disk.total)}
    written = REPORT.with_suffix(".new")
    written.write_text(json.dumps(report))
    written.replace(REPORT)
    return report


api = Endpoint(name="report", cpu="cpu3c-1-2", workers=(0, 1), volume="reports")


@api.get("/latest")
def latest() -> dict:
    """The last report; empty before the first tick."""
    return json.loads(REPORT.read_text()) if REPORT.exists() else {}
