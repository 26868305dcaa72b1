"""Procrastinate as its documentation sets it up with PostgreSQL. It keeps no results: a job is done when its row says so."""

import functools
import os
import time

import psycopg
from procrastinate import App, PsycopgConnector

url = os.environ["BENCH_BROKER"]
app = App(connector=PsycopgConnector(conninfo=url))
opened = functools.cache(app.open)
connection = functools.cache(lambda: psycopg.connect(url, autocommit=True))


@app.task(name="echo")
def echo(text):
    return {"text": text}


def submit(count, text):
    opened()
    for _ in range(count):
        echo.defer(text=text)


def done():
    return asked("SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'")


def round_trip(text):
    opened()
    job = echo.defer(text=text)
    while asked("SELECT status FROM procrastinate_jobs WHERE id = %s", job) != "succeeded":
        time.sleep(0.0005)


def asked(query, *values):
    return connection().execute(query, values).fetchone()[0]
