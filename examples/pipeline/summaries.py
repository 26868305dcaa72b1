"""Second step: statistics of each sensor. Needs numpy."""

from dataclasses import dataclass
from datetime import datetime

from readings import Reading
from svc import Endpoint

OUTLIER_DEVIATIONS = 2.0


@dataclass
class Summary:
    sensor: str
    count: int
    mean: float
    deviation: float
    first: datetime
    last: datetime
    outliers: list[Reading]


@Endpoint(name="summaries", cpu="cpu3c-1-2", workers=(0, 3), dependencies=["numpy"])
def summarize(readings: list[Reading]) -> list[Summary]:
    """A summary of each sensor, by name."""
    import numpy

    summaries = []
    for sensor in sorted({reading.sensor for reading in readings}):
        own = [reading for reading in readings if reading.sensor == sensor]
        values = numpy.array([reading.value for reading in own])
        mean, deviation = float(values.mean()), float(values.std())
        far = numpy.abs(values - mean) > OUTLIER_DEVIATIONS * deviation
        outliers = [reading for reading, is_far in zip(own, far) if is_far]
        summaries.append(Summary(sensor, len(own), mean, deviation, own[0].at, own[-1].at, outliers))
    return summaries
