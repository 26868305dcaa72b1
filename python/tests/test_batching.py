"""`svc.batched`: which calls share a batch, who gets what, and what is said of a function that does not fit."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import threading
import time
import unittest
import unittest.mock
from _thread import get_ident, start_new_thread

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src"))

import svc
from svc.context import Cancelled, Context, context, current

LONG_MS = 60_000


def together(function, *inputs):
    """Calls from a thread each; results or exceptions in the order of the inputs."""
    found = [None] * len(inputs)

    def call(i):
        try:
            found[i] = function(inputs[i])
        except BaseException as error:
            found[i] = error

    threads = [threading.Thread(target=call, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


class Model:
    def __init__(self, more):
        self.more = more
        self.sizes = []

    @svc.batched(max_size=3, wait_ms=LONG_MS)
    def predict(self, x: list[int]) -> list[int]:
        self.sizes.append(len(x))
        return [each + self.more for each in x]


class BatchedFunctions(unittest.TestCase):
    def test_threads_share_a_batch_and_each_gets_its_own_result(self):
        seen = []

        @svc.batched(max_size=4, wait_ms=LONG_MS)
        def double(x: list[int]) -> list[int]:
            seen.append((len(x), context().job_id))
            return [2 * each for each in x]

        token = current.set(Context("job"))
        try:
            self.assertEqual(together(double, *range(8)), [0, 2, 4, 6, 8, 10, 12, 14])
        finally:
            current.reset(token)
        self.assertEqual(seen, [(4, ""), (4, "")])

    def test_a_batch_that_stays_small_begins_when_its_first_call_has_waited(self):
        @svc.batched(max_size=100, wait_ms=1)
        def name(x: list[str], suffix: list[str] = "!", *, times: list[int] = 1) -> list[str]:
            return [(text + end) * count for text, end, count in zip(x, suffix, times)]

        self.assertEqual([name("a"), name(x="b", times=2), name("c", "?")], ["a!", "b!b!", "c?"])
        signature = inspect.signature(name)
        self.assertEqual(list(signature.parameters), ["x", "suffix", "times"])
        self.assertEqual(name.__annotations__["x"], "str")
        with self.assertRaisesRegex(TypeError, "missing 1 required positional argument: 'x'"):
            name()

    def test_an_exception_among_the_results_is_one_calls_own_and_one_that_is_raised_everybodys(self):
        @svc.batched(max_size=3, wait_ms=LONG_MS)
        def check(x: list[int]) -> list[int]:
            if 99 in x:
                raise KeyError("all")
            return [ValueError("one") if each < 0 else each for each in x]

        one, error, three = together(check, 1, -1, 3)
        self.assertEqual((one, type(error), three), (1, ValueError, 3))
        errors = together(check, 99, 1, 2)
        self.assertEqual([type(each) for each in errors], [KeyError] * 3)
        self.assertEqual(len({id(each) for each in errors}), 3)

    def test_what_is_no_list_of_the_right_length_fails_the_batch_with_words(self):
        @svc.batched(max_size=2, wait_ms=LONG_MS)
        def short(x: list[int]) -> list[int]:
            return {"one": [1], "text": "ab", "none": None}[x[0]]

        said = [[str(each) for each in together(short, what, what)] for what in ("one", "text", "none")]
        self.assertIn("was given 2 inputs and returned 1 results", said[0][0])
        self.assertIn("returned str", said[1][1])
        self.assertIn("returned NoneType", said[2][0])

    def test_each_instance_has_its_own_batches(self):
        one, other = Model(1), Model(10)
        calls = [(one, 1), (other, 1), (one, 2), (other, 2), (one, 3), (other, 3)]
        results = together(lambda call: call[0].predict(call[1]), *calls)
        self.assertEqual(results, [2, 11, 3, 12, 4, 13])
        self.assertEqual((one.sizes, other.sizes), ([3], [3]))

    def test_async_calls_share_a_batch_and_a_cancelled_one_leaves_it(self):
        sizes = []

        @svc.batched(max_size=3, wait_ms=LONG_MS)
        async def double(x: list[int]) -> list[int]:
            sizes.append(len(x))
            await asyncio.sleep(0)
            return [ValueError("odd") if each == 5 else 2 * each for each in x]

        async def main():
            first = [asyncio.ensure_future(double(n)) for n in (1, 2)]
            await asyncio.sleep(0)
            first[0].cancel()
            await asyncio.sleep(0)
            found = await asyncio.gather(first[1], double(5), double(6), *map(double, (7, 8, 9)), return_exceptions=True)
            return [repr(each) for each in found], first[0].cancelled()

        found = ["4", "ValueError('odd')", "12", "14", "16", "18"]
        self.assertEqual(asyncio.run(main()), (found, True))
        self.assertEqual(asyncio.run(main()), (found, True), "on another loop")
        self.assertEqual(sizes, [3, 3, 3, 3])

    def test_a_cancelled_thread_leaves_its_batch(self):
        import ctypes

        @svc.batched(max_size=2, wait_ms=LONG_MS)
        def same(x: list[int]) -> list[int]:
            return x

        began, ended = [], []

        def wait():
            try:
                began.append(get_ident())
                same(1)
            except Cancelled:
                ended.append(True)

        # Without `threading`, whose own locks a cancel that comes too early or too late would leave locked.
        start_new_thread(wait, ())
        while not ended:
            for thread in began:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Cancelled))
            time.sleep(0.2)
        self.assertEqual(ended, [True])
        self.assertEqual(together(same, 2, 3), [2, 3])

    def test_a_cancel_that_ends_the_thread_of_the_batches_as_it_starts_stops_no_call(self):
        from svc import batching

        @svc.batched(max_size=2, wait_ms=LONG_MS)
        def same(x: list[int]) -> list[int]:
            return x

        starts = []

        def start(function, arguments):
            starts.append(function)
            return start_new_thread(function, arguments) if len(starts) > 2 else None

        with unittest.mock.patch.object(batching, "start_new_thread", start):
            self.assertEqual(together(same, 2, 3), [2, 3])
        self.assertGreater(len(starts), 2)

    def test_a_fork_has_batches_of_its_own(self):
        @svc.batched(max_size=1)
        def same(x: list[int]) -> list[int]:
            return x

        self.assertEqual(same(1), 1)
        pid = os.fork()
        if pid == 0:
            os._exit(same(7))
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 7)

    def test_what_cannot_be_batched_is_refused_with_words(self):
        mark = svc.batched()
        for function, why in (
            (lambda *x: x, "args"),
            (lambda: 1, "no parameter"),
            (Model, "marks a function"),
        ):
            with self.assertRaisesRegex(TypeError, why):
                mark(function)

        def chunks(x):
            yield x

        with self.assertRaisesRegex(TypeError, "is a generator"):
            mark(chunks)
        for settings in ({"max_size": 0}, {"max_size": 501}, {"wait_ms": -1}):
            with self.assertRaises(ValueError):
                svc.batched(**settings)


if __name__ == "__main__":
    unittest.main()
