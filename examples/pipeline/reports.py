"""The way in: an HTTP API that runs the steps on their endpoints and writes the report. Needs Jinja2."""

from readings import parse
from summaries import Summary, summarize
from svc import Endpoint, RemoteError, Response

api = Endpoint(name="reports", cpu="cpu3c-1-2", workers=(0, 3), max_concurrency=8, dependencies=["jinja2"])

TEMPLATE = """\
<!doctype html>
<title>{{ title }}</title>
<h1>{{ title }}</h1>
{% for one in summaries %}
<h2>{{ one.sensor }}</h2>
<p>{{ one.count }} readings from {{ one.first.isoformat(" ") }} to {{ one.last.isoformat(" ") }}:
mean {{ "%.2f" % one.mean }}, standard deviation {{ "%.2f" % one.deviation }}.</p>
{% for reading in one.outliers %}
<p class="outlier">{{ reading.value }} at {{ reading.at.isoformat(" ") }} is far off.</p>
{% endfor %}
{% endfor %}
"""


@api.post("/report")
async def report(log: str, title: str = "Readings"):
    """The report of a log as an HTML page."""
    try:
        page = render(title, await summaries_of(log))
    except RemoteError as error:
        return problem(error)
    return Response(page, headers={"content-type": "text/html; charset=utf-8"})


@api.post("/outliers")
async def outliers(log: str):
    """The readings that are far off, by sensor."""
    try:
        summaries = await summaries_of(log)
    except RemoteError as error:
        return problem(error)
    return {one.sensor: [{"at": reading.at, "value": reading.value} for reading in one.outliers] for one in summaries}


async def summaries_of(log: str) -> list[Summary]:
    """Runs the two steps where they are deployed."""
    readings = await parse.aio(log)
    return await summarize.aio(readings)


def problem(error: RemoteError) -> Response:
    """What a step refused is the caller's business; anything else it raised is ours."""
    if error.error_type != "ValueError":
        raise error
    return Response({"error": error.error_message}, status=422)


def render(title: str, summaries: list[Summary]) -> str:
    import jinja2

    environment = jinja2.Environment(autoescape=True, trim_blocks=True)
    return environment.from_string(TEMPLATE).render(title=title, summaries=summaries)
