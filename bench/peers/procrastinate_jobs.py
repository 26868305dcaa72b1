"""Procrastinate as postgres_queues.mjs has the others: one process that submits from 64 places at once and works."""
import asyncio
import json
import logging
import sys
import time

import procrastinate

logging.disable(logging.CRITICAL)
url = sys.argv[1]
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=10, max_size=10))
TEXT = "x" * 80
SUBMITTERS = 64


@app.task(name="echo")
async def echo(text: str) -> dict[str, str]:
    return {"text": text}


async def main() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        worker = asyncio.create_task(app.run_worker_async(concurrency=64, install_signal_handlers=False))
        print("{}", flush=True)
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            left = int(line)
            began = time.perf_counter()

            async def submitter() -> None:
                nonlocal left
                while left > 0:
                    left -= 1
                    await echo.defer_async(text=TEXT)

            await asyncio.gather(*(submitter() for _ in range(SUBMITTERS)))
            query = "SELECT count(*) AS n FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
            while (await app.connector.execute_query_one_async(query))["n"] > 0:
                await asyncio.sleep(0.01)
            print(json.dumps({"seconds": time.perf_counter() - began}), flush=True)
        worker.cancel()


asyncio.run(main())
