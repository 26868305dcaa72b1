"""First step: what a logger wrote becomes readings. Needs PyYAML."""

from dataclasses import dataclass
from datetime import datetime

from svc import Endpoint


@dataclass
class Reading:
    sensor: str
    at: datetime
    value: float


@Endpoint(name="readings", cpu="cpu3c-1-2", workers=(0, 3), dependencies=["pyyaml"])
def parse(log: str) -> list[Reading]:
    """The readings of a log, oldest first. It maps each sensor to its values by time."""
    import yaml

    entries = yaml.safe_load(log)
    if not isinstance(entries, dict):
        raise ValueError("the log must map sensors to their values")
    readings = [
        Reading(sensor, at, float(value)) for sensor, values in entries.items() for at, value in values.items()
    ]
    return sorted(readings, key=lambda reading: reading.at)
