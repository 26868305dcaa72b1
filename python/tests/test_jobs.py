"""Queue-based jobs through a real launcher, zygote and worker."""

from __future__ import annotations

import os
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import LauncherTest, protocol


class Jobs(LauncherTest):
    def test_a_function_gets_its_arguments_by_name_and_its_value_is_the_output(self):
        link = self.ready("def run(name, times=1):\n    return {'hello': name * times}\n")
        result = link.run(1, {"name": "ä", "times": 2})
        self.assertEqual(result.head["ok"], True)
        self.assertEqual((result.head["job"], result.head["fence"]), ("job-1", 101))
        self.assertEqual(result.json, {"hello": "ää"})

    def test_missing_and_unknown_arguments_are_named_with_the_signature(self):
        link = self.ready("def run(name: str, times: int = 1):\n    return name\n")
        failure = link.run(1, {"nmae": "x"})
        self.assertFalse(failure.head["ok"])
        self.assertEqual(
            failure.json["error_message"],
            "missing argument 'name' and unknown argument 'nmae'; the function is run(name: str, times: int = 1)",
        )

    def test_a_raised_exception_carries_type_message_and_user_frames_only(self):
        link = self.ready("def inner():\n    raise ValueError('bad')\ndef run():\n    inner()\n")
        failure = link.run(1).json
        self.assertEqual((failure["error_type"], failure["error_message"]), ("ValueError", "bad"))
        self.assertIn("in inner", failure["error_traceback"])
        self.assertNotRegex(failure["error_traceback"], "_runtime|_values")
        self.assertRegex(failure["error_traceback"], r'File "[\w.]+\.py", line', "named as it was imported, not where it lies")
        self.assertEqual(failure["worker_id"], link.worker)
        self.assertTrue(failure["hostname"] and failure["svc_version"])

    def test_the_traceback_of_a_failed_job_is_in_its_log_after_what_it_printed(self):
        link = self.ready("def run(n):\n    print('began', end='')\n    return 1 / n\n")
        link.job(1, {"n": 0})
        printed, logged = link.expect(protocol.LOG, 1), link.expect(protocol.LOG, 1)
        self.assertEqual(printed.body, b"began\n")
        self.assertEqual(logged.head, {"stream": "stderr", "job": "job-1"})
        head, _, traceback = logged.body.decode().partition("\n")
        self.assertEqual((head, traceback), ("[svc] job job-1 failed:", link.result(1).json["error_traceback"]))
        self.assertTrue(traceback.startswith("Traceback (most recent call last):\n"))
        link.run(2, {"m": 0})  # the caller's fault
        link.job(3, {"n": 0})
        self.assertEqual(link.expect(protocol.LOG).channel, 3)

    def test_what_atexit_functions_print_is_logged_before_the_worker_says_goodbye(self):
        link = self.ready("import atexit\natexit.register(print, 'left', end='')\ndef run():\n    return 1\n")
        link.run(1)
        link.send(protocol.DRAIN)
        self.assertEqual(link.expect(protocol.LOG).body, b"left\n")
        link.expect(protocol.GOODBYE)

    def test_what_a_job_was_given_goes_with_it_without_a_collection_of_garbage(self):
        count = "sum(type(each).__name__ == 'Work' for each in gc.get_objects())"
        for kind, concurrency in (("def", 1), ("def", 2), ("async def", 2)):
            source = f"import gc\ngc.disable()\n{kind} run(n):\n    1 / n\n    return {count}\n"
            name = f"kind{concurrency}{len(kind)}"
            link = self.ready(source, endpoint=name, module=name, concurrency=concurrency)
            counts = [link.run(channel, {"n": 1}).json for channel in range(1, 9)]
            # The thread of the job before may just be leaving; what stays would be counted each time.
            self.assertIn(1, counts[1:], counts)

    def test_large_bodies_one_after_the_other_take_the_memory_of_one(self):
        link = self.ready("import os\ndef run(text):\n    return {'text': text} if text else os.getpid()\n")
        pid = link.run(1, {"text": ""}).json
        text = "x" * 8_000_000
        for channel in range(2, 22):
            self.assertEqual(len(link.run(channel, {"text": text}).json["text"]), len(text))
        status = Path(f"/proc/{pid}/status").read_text()
        self.assertLess(int(re.search(r"VmHWM:\s+(\d+)", status)[1]), 100_000)

    def test_a_returned_error_fails_the_job_with_that_text(self):
        link = self.ready("def run():\n    return {'error': 'no such user'}\n")
        result = link.run(1)
        self.assertFalse(result.head["ok"])
        self.assertEqual(result.json, "no such user")

    def test_a_generator_streams_its_yields_at_once_and_the_output_is_their_list(self):
        link = self.ready(
            """
            import os, time
            def run(gate):
                yield 1
                while not os.path.exists(gate):
                    time.sleep(0.001)
                yield {"a": 2}
            """
        )
        gate = self.directory + "/gate"
        link.job(1, {"gate": gate})
        self.assertEqual(link.expect(protocol.CHUNK, 1).json, 1)  # while the function still waits
        open(gate, "w").close()
        self.assertEqual(link.expect(protocol.CHUNK, 1).json, {"a": 2})
        self.assertEqual(link.result(1).json, [1, {"a": 2}])

    def test_an_async_generator_streams_too(self):
        link = self.ready("async def run():\n    yield 1\n    yield 2\n")
        link.job(1)
        self.assertEqual([link.expect(protocol.CHUNK, 1).json for _ in range(2)], [1, 2])
        self.assertEqual(link.result(1).json, [1, 2])

    def test_async_functions_run_at_the_same_time_up_to_max_concurrency(self):
        link = self.ready(
            """
            import asyncio
            waiting = []
            async def run(n):
                me = asyncio.get_running_loop().create_future()
                waiting.append(me)
                if len(waiting) == 3:
                    for other in waiting:
                        other.set_result(None)
                await me
                return n
            """,
            concurrency=3,
        )
        self.assertEqual(link.credit.head["slots"], 3)
        for channel in (1, 2, 3):
            link.job(channel, {"n": channel})
        self.assertEqual({link.result(channel).json for channel in (1, 2, 3)}, {1, 2, 3})

    def test_sync_functions_with_concurrency_run_in_that_many_threads(self):
        link = self.ready(
            "import threading\nbarrier = threading.Barrier(2)\ndef run():\n    barrier.wait(60)\n    return threading.active_count()\n",
            concurrency=2,
        )
        link.job(1)
        link.job(2)
        self.assertTrue(link.result(1).head["ok"])
        self.assertTrue(link.result(2).head["ok"])

    def test_a_class_has_one_instance_per_worker_and_method_chooses(self):
        link = self.ready(
            """
            class Model:
                def __init__(self): self.calls = 0
                def predict(self, x):
                    self.calls += 1
                    return [x, self.calls]
                def reset(self): self.calls = 0
                def _hidden(self): return 1
            """,
            "Model",
            kind="class",
        )
        self.assertEqual(link.run(1, {"x": 1}, method="predict").json, [1, 1])
        self.assertEqual(link.run(2, {"x": 2}, method="predict").json, [2, 2])
        self.assertEqual(
            link.run(3, method="_hidden").json["error_message"], "no method '_hidden'; there are predict, reset"
        )
        self.assertEqual(link.run(4, {"x": 2}).json["error_message"], 'choose one with "method": predict, reset')

    def test_call_or_the_single_public_method_is_the_default(self):
        link = self.ready(
            "class A:\n    def __call__(self, x): return x\n    def other(self): pass\n", "A", kind="class"
        )
        self.assertEqual(link.run(1, {"x": 5}).json, 5)

    def test_results_become_plain_json_and_what_cannot_is_named_with_its_place(self):
        link = self.ready(
            """
            import dataclasses, enum, datetime
            class ndarray:
                def tolist(self): return [1]
            ndarray.__module__ = "numpy"
            class Tensor(ndarray): pass
            Tensor.__module__ = "torch"
            class Color(enum.Enum): RED = "red"
            @dataclasses.dataclass
            class Item:
                image: object
            VALUES = {"bytes": {"b": b"x\\xff"}, "numpy": {"a": ndarray()}, "other": {"items": [1, Item(object())]},
                "torch": (1, {"t": Tensor()}), "some": [{1}, (2, 3), Color.RED, datetime.date(2024, 2, 29), 1j, Item(4)], "nan": [float("nan"), {"a": float("inf")}], "key": {(1, 2): 3}}
            VALUES["self"] = loop = []
            loop.append(loop)
            def run(which): return VALUES[which]
            """
        )
        self.assertEqual(link.run(1, {"which": "bytes"}).json, {"b": "eP8="})
        self.assertEqual(link.run(2, {"which": "numpy"}).json, {"a": [1]})
        message = link.run(3, {"which": "other"}).json["error_message"]
        self.assertTrue(message.startswith('result["items"][1].image: a object is not JSON; make it of'), message)
        message = link.run(7, {"which": "torch"}).json["error_message"]
        self.assertEqual(message, 'result[1]["t"]: a torch.Tensor is not JSON; convert it with .tolist()')
        some = [[1], [2, 3], "red", "2024-02-29", [0.0, 1.0], {"image": 4}]
        self.assertEqual(link.run(8, {"which": "some"}).json, some)
        self.assertEqual(link.run(4, {"which": "nan"}).json, [None, {"a": None}])
        self.assertIn("not JSON", link.run(5, {"which": "key"}).json["error_message"])
        self.assertIn("holds itself", link.run(6, {"which": "self"}).json["error_message"])

    def test_progress_and_context_tell_about_the_running_job(self):
        link = self.ready(
            """
            import svc, time
            def run():
                svc.progress({"percent": 50})
                now = svc.context()
                return [now.job_id, now.endpoint, now.environment, now.worker_id, 0 < now.remaining_s <= 60, now.cancelled]
            """
        )
        link.job(1)
        self.assertEqual(link.expect(protocol.PROGRESS, 1).json, {"percent": 50})
        self.assertEqual(link.result(1).json, ["job-1", "hello", "production", link.worker, True, False])

    def test_print_goes_to_the_log_of_its_job_and_never_into_the_protocol(self):
        link = self.ready(
            "import sys, os\ndef run():\n    print('one')\n    print('two', file=sys.stderr)\n    print('half', end='')\n    os.write(1, b'raw\\n')\n    return 1\n"
        )
        link.job(1)
        self.assertEqual((link.expect(protocol.LOG, 1, stream="stdout").body), b"one\n")
        self.assertEqual((link.expect(protocol.LOG, 1, stream="stderr").body), b"two\n")
        self.assertEqual((link.expect(protocol.LOG, 1, stream="stdout").body), b"half\n")
        self.assertEqual(link.result(1).json, 1)
        self.assertEqual(self.launcher.expect(protocol.LOG, worker=link.worker).body, b"raw\n")

    def test_lines_of_threads_that_print_at_once_stay_whole(self):
        link = self.ready(
            """
            import threading
            def run():
                print("of the job, ", end="")
                other = threading.Thread(target=lambda: (print("half of a thread", end=""), print()))
                other.start()
                other.join()
                print("whole")
                last = threading.Thread(target=lambda: print("left open", end=""))
                last.start()
                last.join()
            """
        )
        link.job(1)
        for line in (b"half of a thread\n", b"of the job, whole\n", b"left open\n"):
            self.assertEqual(link.expect(protocol.LOG, 1, stream="stdout").body, line)
        link.result(1)

    def test_sys_exit_in_a_function_fails_only_its_job(self):
        link = self.ready("import sys\ndef run(go):\n    if go: sys.exit(3)\n    return 'alive'\n")
        self.assertEqual(link.run(1, {"go": True}).json["error_message"], "the function called sys.exit(3)")
        self.assertEqual(link.run(2, {"go": False}).json, "alive")

    def test_sys_exit_in_a_callback_of_the_event_loop_ends_the_worker_and_its_jobs_are_no_failures(self):
        link = self.ready(
            "import asyncio, sys\nasync def run(go):\n"
            "    if go: asyncio.get_running_loop().call_soon(sys.exit, 3)\n    await asyncio.Event().wait()\n",
            concurrency=2,
        )
        link.job(1, {"go": False})
        link.job(2, {"go": True})
        link.expect_end()
        self.assertEqual((link.seen(protocol.RESULT), link.seen(protocol.GOODBYE)), ([], []))
        self.assertEqual(self.launcher.expect(protocol.EXITED).head["code"], 3)
        said = self.launcher.expect(protocol.LOG).body
        self.assertEqual(said, b"[svc] worker ends: a callback of its event loop called sys.exit(3)\n")

    def test_ping_is_answered_while_a_sync_function_computes(self):
        link = self.ready("def run():\n    n = 0\n    while n < 3_000_000: n += 1\n    return n\n")
        link.job(1)
        link.send(protocol.PING)
        link.expect(protocol.PONG)
        self.assertEqual(link.seen(protocol.RESULT), [])
        self.assertTrue(link.result(1).head["ok"])

    def test_cancel_ends_a_sleeping_sync_function_and_the_worker_goes_on(self):
        link = self.ready("import time\ndef run(s):\n    print('begun')\n    time.sleep(s)\n    return 'done'\n")
        link.job(1, {"s": 60})
        link.expect(protocol.LOG, 1)
        link.send(protocol.CANCEL, 1, {"reason": "cancelled"})
        failure = link.result(1)
        self.assertEqual(
            (failure.head["ok"], failure.json["error_type"], failure.json["error_message"]),
            (False, "Cancelled", "cancelled"),
        )
        self.assertEqual(link.run(2, {"s": 0}).json, "done")

    def test_cancel_ends_a_computing_sync_function_that_catches_exceptions(self):
        link = self.ready(
            "def run():\n    print('begun')\n    while True:\n        try:\n            sum(range(100))\n        except Exception: pass\n"
        )
        link.job(1)
        link.expect(protocol.LOG, 1)
        link.send(protocol.CANCEL, 1, {"reason": "timeout"})
        self.assertEqual(link.result(1).json["error_message"], "execution timeout")

    def test_cancel_ends_a_printing_function_without_cutting_a_frame(self):
        link = self.ready("def run(n):\n    for i in range(n): print('x' * 100)\n")
        for channel in range(1, 6):
            link.job(channel, {"n": 10**9})
            link.expect(protocol.LOG, channel)
            link.send(protocol.CANCEL, channel, {"reason": "cancelled"})
            self.assertFalse(link.result(channel).head["ok"])
        self.assertTrue(link.run(9, {"n": 1}).head["ok"])

    def test_cancel_ends_an_async_function(self):
        link = self.ready(
            "import asyncio\nasync def run(s):\n    print('begun')\n    await asyncio.sleep(s)\n    return 1\n",
            concurrency=2,
        )
        link.job(1, {"s": 60})
        link.job(2, {"s": 60})
        link.expect(protocol.LOG, 1)
        link.send(protocol.CANCEL, 1, {"reason": "cancelled"})
        self.assertEqual(link.result(1).json["error_type"], "Cancelled")
        self.assertEqual(link.run(3, {"s": 0}).json, 1)

    def test_cancel_ends_a_function_in_a_thread(self):
        link = self.ready("def run():\n    print('begun')\n    while True: sum(range(100))\n", concurrency=2)
        link.job(1)
        link.expect(protocol.LOG, 1)
        link.send(protocol.CANCEL, 1, {"reason": "cancelled"})
        self.assertEqual(link.result(1).json["error_type"], "Cancelled")

    def test_a_job_that_came_in_advance_is_cancelled_at_once_and_never_runs(self):
        source = """
            import os, time
            def run(gate):
                open(gate + "-begun", "a").close()
                while not os.path.exists(gate):
                    time.sleep(0.002)
        """
        variants = (
            (source, 1),
            (source, 2),
            (source.replace("def run", "async def run").replace("time.sleep", "await __import__('asyncio').sleep"), 2),
        )
        for number, (text, concurrency) in enumerate(variants):
            with self.subTest(number):
                link = self.ready(text, concurrency=concurrency, endpoint=f"e{number}", module=f"m{number}")
                gates = [f"{self.directory}/{number}-{n}" for n in range(concurrency + 1)]
                for channel, gate in enumerate(gates, 1):
                    link.job(channel, {"gate": gate})
                link.send(protocol.CANCEL, concurrency + 1, {"reason": "cancelled"})
                self.assertFalse(link.result(concurrency + 1).head["ok"])
                for channel, gate in enumerate(gates, 1):
                    open(gate, "w").close()
                    if channel <= concurrency:
                        self.assertTrue(link.result(channel).head["ok"])
                self.assertFalse(os.path.exists(gates[-1] + "-begun"))

    def test_a_recalled_job_is_given_back_if_it_has_not_begun_and_goes_on_if_it_has(self):
        source = "import os, time\ndef run(gate):\n    print('begun')\n    while not os.path.exists(gate): time.sleep(0.002)\n"
        link = self.ready(source)
        gate = f"{self.directory}/gate"
        link.job(1, {"gate": gate})
        link.job(2, {"gate": gate})
        link.expect(protocol.LOG, 1)
        link.send(protocol.CANCEL, 1, {"reason": "recalled"})
        link.send(protocol.CANCEL, 2, {"reason": "recalled"})
        self.assertIs(link.result(2).head["begun"], False)
        open(gate, "w").close()
        first = link.result(1)
        self.assertTrue(first.head["ok"])
        self.assertNotIn("begun", first.head)

    def test_a_missing_module_is_named_with_its_cure(self):
        link = self.ready("def run():\n    import no_such_thing.deep\n")
        self.assertEqual(
            link.run(1).json["error_message"],
            "module 'no_such_thing' not found: add it to dependencies of endpoint 'hello'",
        )

    def test_many_jobs_at_once_come_back_each_once(self):
        link = self.ready("def run(n):\n    return n\n")
        for channel in range(1, 501):
            link.job(channel, {"n": channel})
        self.assertEqual([link.result(channel).json for channel in range(1, 501)], list(range(1, 501)))

    def test_drain_finishes_what_runs_then_says_goodbye(self):
        link = self.ready("import time\ndef run():\n    time.sleep(0.05)\n    return 1\n")
        link.job(1)
        link.send(protocol.DRAIN, 0, {"graceMs": 1000})
        self.assertEqual(link.result(1).json, 1)
        link.expect(protocol.GOODBYE)
        self.assertEqual(self.launcher.expect(protocol.EXITED, worker=link.worker).head["code"], 0)

    def test_drain_of_an_idle_async_worker_ends_it(self):
        link = self.ready("async def run():\n    return 1\n")
        link.send(protocol.DRAIN, 0, {"graceMs": 1000})
        link.expect(protocol.GOODBYE)

    def test_large_inputs_and_outputs_pass(self):
        link = self.ready("def run(s):\n    return s + s\n")
        text = "x" * 3_000_000
        self.assertEqual(len(link.run(1, {"s": text}).json), 6_000_000)

    def test_a_handler_that_raises_ends_no_worker_whose_functions_run_in_threads(self):
        source = (
            "import signal, time\nclass Late(Exception): pass\ndef late(*_): raise Late('too long')\n"
            "signal.signal(signal.SIGALRM, late)\ndef run():\n    signal.setitimer(signal.ITIMER_REAL, 0.05)\n"
            "    time.sleep(0.3)\n    return 'done'\n"
        )
        link = self.ready(source, concurrency=2)
        for channel in (1, 2):
            self.assertEqual(link.run(channel).json, "done")
            said = self.launcher.expect(protocol.LOG, worker=link.worker).body
            self.assertIn(b"the handler of SIGALRM raised Late: signals reach", said)

    def test_functions_may_keep_their_positional_only_parameters(self):
        link = self.ready("def run(a, /, b, *, c=3, **rest):\n    return [a, b, c, rest]\n")
        self.assertEqual(link.run(1, {"a": 1, "b": 2, "d": 4}).json, [1, 2, 3, {"d": 4}])


if __name__ == "__main__":
    unittest.main()
