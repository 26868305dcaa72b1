"""A model that one endpoint trains and another one uses: it lies in a volume that both name."""

import json
from pathlib import Path

from svc import Endpoint

MODEL = Path("/volumes/models/line.json")


@Endpoint(name="train", volume="models")
def train(points: list[tuple[float, float]]):
    """The line through the points with the least squares; it stays when workers and deploys go."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    model = {"slope": slope, "offset": mean_y - slope * mean_x}
    written = MODEL.with_suffix(".new")
    written.write_text(json.dumps(model))
    written.replace(MODEL)  # who reads at this moment gets the earlier one, whole
    return model


@Endpoint(name="predict", volume="models")
def predict(x: float):
    """What the newest model says for x."""
    model = json.loads(MODEL.read_text())
    return model["slope"] * x + model["offset"]
