"""The launcher, zygotes, forks and spawns, and what becomes of processes that misbehave."""

from __future__ import annotations

import os
import resource
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import SOURCE, WAIT_S, LauncherTest, alive, protocol, wait_until

from svc._runtime.confine import kernel


class Starting(LauncherTest):
    def test_a_limit_of_descriptors_lowered_below_what_it_has_open_does_not_end_it(self):
        link = self.ready("def run():\n    return 1\n")
        refused: list[str] = []
        # The limit is raised before the launcher waits again: where it did so just before these came, none is refused.
        wait_until(lambda: refused.extend(self.refused_by_limit()) or refused, what="a start is refused")
        self.assertEqual(set(refused), {"machine"})
        self.assertEqual(self.ready().run(1).json, 1)
        self.assertEqual(link.run(1).json, 1)

    def refused_by_limit(self) -> list[str]:
        """Starts some while no descriptor can be had, and returns why those failed that did."""
        _, hard = resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE)
        # A spare fork that is there already needs no descriptor: it takes the first.
        with self.launcher.together():
            started = [self.start() for _ in range(4)]
            resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (1, hard))
        told: dict[str, str] = {}

        def all_are_told() -> bool:
            told.update({frame.head["worker"]: "" for frame in self.launcher.seen(protocol.STARTED)})
            told.update({frame.head["worker"]: frame.head["cause"] for frame in self.launcher.seen(protocol.EXITED)})
            return told.keys() >= set(started)

        wait_until(all_are_told, what=f"each of {started} starts or is refused")
        return [cause for cause in told.values() if cause]

    def test_workers_of_one_zygote_key_share_one_import(self):
        source = (
            "import os\nimported_by = os.getpid()\ndef run():\n    return [imported_by, os.getpid(), os.getppid()]\n"
        )
        first = self.ready(source).run(1).json
        second = self.ready().run(1).json
        self.assertEqual(first[0], second[0])
        self.assertEqual(first[0], first[2])
        self.assertNotEqual(first[1], second[1])
        started = [self.launcher.expect(protocol.STARTED, worker=f"w-{n}") for n in (1, 2)]
        self.assertEqual([frame.head["how"] for frame in started], ["fork", "fork"])
        self.assertEqual(started[0].head["pid"], first[1])

    def test_forked_workers_do_not_draw_the_same_random_numbers(self):
        source = "import random, uuid\nrandom.seed(1)\ndef run():\n    return [random.random(), str(uuid.uuid4())]\n"
        self.assertNotEqual(self.ready(source).run(1).json, self.ready().run(1).json)

    def test_boot_off_gives_a_fresh_interpreter(self):
        link = self.ready("import os\npid = os.getpid()\ndef run():\n    return pid == os.getpid()\n", boot="OFF")
        self.assertTrue(link.run(1).json)
        started = self.launcher.expect(protocol.STARTED)
        self.assertEqual((started.head["how"], started.head["reason"]), ("spawn", "boot is OFF"))

    def test_a_thread_alive_after_import_means_a_fresh_interpreter_and_the_reason_is_told(self):
        source = "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\ndef run():\n    return threading.active_count()\n"
        self.assertTrue(self.ready(source).run(1).head["ok"])
        started = self.launcher.expect(protocol.STARTED)
        self.assertEqual((started.head["how"], started.head["reason"]), ("spawn", "a thread is alive after import"))
        self.ready()
        self.assertEqual(self.launcher.expect(protocol.STARTED).head["how"], "spawn")

    def test_a_socket_open_after_import_is_not_shared_by_forks(self):
        source = "import socket\na, b = socket.socketpair()\ndef run():\n    return 1\n"
        self.ready(source)
        self.assertEqual(self.launcher.expect(protocol.STARTED).head["reason"], "a socket is open after import")

    def test_an_interpreter_given_by_another_path_runs_its_own_zygote(self):
        wrapper = os.path.join(self.directory, "python")
        with open(wrapper, "w") as file:
            file.write(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        os.chmod(wrapper, 0o755)
        self.assertEqual(self.ready("def run():\n    return 1\n", python=wrapper).run(1).json, 1)
        self.assertEqual(self.launcher.expect(protocol.STARTED).head["how"], "fork")

    def test_env_is_set_and_the_platforms_own_variables_do_not_reach_the_function(self):
        link = self.ready(
            "import os\nat_import = os.environ.get('A')\ndef run():\n    return [at_import, sorted(os.environ)]\n",
            env={"A": "1"},
        )
        at_import, names = link.run(1).json
        self.assertEqual(at_import, "1")
        self.assertLessEqual(
            set(names),
            {
                "A",
                "PATH",
                "HOME",
                "LANG",
                "TZ",
                "TMPDIR",
                "USER",
                "LOGNAME",
                "LC_ALL",
                "LC_CTYPE",
                "LD_LIBRARY_PATH",
                "SSL_CERT_FILE",
                "SSL_CERT_DIR",
            },
        )

    def test_the_user_has_a_name_though_the_machine_knows_none(self):
        link = self.ready("import getpass\ndef run():\n    return getpass.getuser()\n")
        self.assertEqual(link.run(1).json, "svc")

    def test_variables_of_many_bytes_come_beside_the_head_of_a_start(self):
        env = {"A": "\x01" * 60_000, "B": "ü" * 30_000}
        source = "import os\ndef run():\n    return [len(os.environ['A']), len(os.environ['B'])]\n"
        self.assertEqual(self.ready(source, body_env=env).run(1).json, [60_000, 30_000])
        self.assertEqual(self.ready(body_env=env).run(1).json, [60_000, 30_000])
        self.assertEqual(self.ready(body_env=env, boot="OFF").run(1).json, [60_000, 30_000])

    def test_code_that_closes_the_standard_descriptors_when_it_is_imported_gets_workers_with_their_output(self):
        for closing in ("sys.stdin.close()", "os.close(0)\nos.close(1)\nos.close(2)"):
            with self.subTest(closing=closing):
                source = f"import os, sys\n{closing}\ndef run():\n    os.write(1, b'it is heard\\n')\n    return 1\n"
                link = self.ready(source, zygote=closing)
                self.assertEqual(link.run(1).json, 1)
                self.assertEqual(self.launcher.expect(protocol.STARTED, worker=link.worker).head["how"], "fork")
                self.assertEqual(self.launcher.expect(protocol.LOG, worker=link.worker).body, b"it is heard\n")

    def test_code_that_writes_to_the_channel_of_its_zygote_fails_the_boot_and_fills_no_log(self):
        source = (
            "import os, stat\nfor n in range(3, 20):\n    try:\n"
            "        if stat.S_ISSOCK(os.fstat(n).st_mode):\n            while True: os.write(n, {text!r})\n"
            "    except OSError: pass\ndef run():\n    return 1\n"
        )
        said = ["{}", "null", "[]", '"ready"', "{", '{"ready": "x"}', '{"failed": 1}', '{"forked": 99}', '{"unforked": 1}']
        said += ['{"exited": 1e999, "status": 0}', "[" * 50_000, "\x00"]
        for number, text in enumerate(said):
            with self.subTest(text=text[:40]):
                worker = self.start(source.replace("{text!r}", repr(text.encode())), module=f"liar_{number}", zygote=f"liar {number}")
                failed = self.launcher.expect(protocol.BOOT_FAILED, worker=worker).head
                self.assertIn("said what is no message", failed["error_message"])
        self.assertEqual(self.ready("def run():\n    return 'goes on'\n", module="other").run(1).json, "goes on")

    def test_a_fork_that_ends_its_zygote_each_time_means_a_fresh_interpreter(self):
        source = "import os\nos.register_at_fork(before=lambda: os._exit(3))\ndef run():\n    return 1\n"
        self.assertEqual(self.ready(source).run(1).json, 1)
        started = self.launcher.expect(protocol.STARTED).head
        self.assertEqual((started["how"], started["reason"]), ("spawn", "the process that forks its workers exited with code 3"))

    def test_a_failed_import_is_reported_with_the_users_frames_and_the_next_start_tries_again(self):
        worker = self.start("def helper():\n    return 1 / 0\nhelper()\ndef run():\n    return 1\n")
        failed = self.launcher.expect(protocol.BOOT_FAILED, worker=worker).head
        self.assertEqual(failed["error_type"], "ZeroDivisionError")
        self.assertIn("worker_file.py", failed["error_traceback"])
        self.assertNotRegex(failed["error_traceback"], "_runtime|_values")
        self.assertEqual(self.launcher.expect(protocol.EXITED, worker=worker).head["code"], 1)
        os.unlink(os.path.join(self.source, "worker_file.py"))
        self.assertEqual(self.ready("def run():\n    return 'mended'\n").run(1).json, "mended")

    def test_a_missing_package_and_a_missing_worker_file_are_told_apart(self):
        worker = self.start("import no_such_package\ndef run():\n    return 1\n")
        message = self.launcher.expect(protocol.BOOT_FAILED, worker=worker).head["error_message"]
        self.assertEqual(message, "module 'no_such_package' not found: add it to dependencies of endpoint 'hello'")
        worker = self.start(module="never_written")
        message = self.launcher.expect(protocol.BOOT_FAILED, worker=worker).head["error_message"]
        self.assertEqual(message, "worker file never_written.py is not in the build: is it ignored?")

    def test_a_failing_class_constructor_is_a_boot_failure_of_the_worker(self):
        worker = self.start(
            "class Model:\n    def __init__(self): raise RuntimeError('no weights')\n    def go(self): pass\n",
            "Model",
            kind="class",
        )
        failed = self.platform.link(worker).expect(protocol.BOOT_FAILED).head
        self.assertEqual((failed["worker"], failed["error_message"]), (worker, "no weights"))
        self.assertEqual(self.launcher.expect(protocol.EXITED, worker=worker).head["code"], 1)

    def test_an_import_that_exits_the_process_fails_the_boot(self):
        worker = self.start("import os\nos._exit(9)\n")
        self.assertIn(
            "exited with code 9", self.launcher.expect(protocol.BOOT_FAILED, worker=worker).head["error_message"]
        )

    def test_two_endpoints_of_one_file_may_use_one_function_name(self):
        source = """
            from svc import Endpoint
            @Endpoint(name="one")
            def run(): return 1
            @Endpoint(name="two")
            def run(): return 2
        """
        self.assertEqual(self.ready(source, endpoint="one").run(1).json, 1)
        self.assertEqual(self.ready(source, endpoint="two").run(1).json, 2)

    def test_a_decorated_function_is_run_as_its_module_has_it(self):
        source = """
            import functools
            from svc import Endpoint
            def twice(f):
                @functools.wraps(f)
                def outer(*a, **k): return [f(*a, **k)] * 2
                return outer
            @twice
            @Endpoint(name="hello")
            def run(x: int): return x
        """
        link = self.ready(source)
        self.assertEqual(link.run(1, {"x": 4}).json, [4, 4])
        self.assertIn("run(x: int)", link.run(2, {}).json["error_message"])

    def test_a_zygote_keeps_one_spare_that_becomes_the_next_worker_with_its_own_variables(self):
        link = self.ready("import os\ndef run():\n    return [os.getpid(), os.getppid(), os.environ['NAME']]\n", env={"NAME": "first"})
        pid, zygote, _ = link.run(1).json
        wait_until(lambda: len(kernel.children_of(zygote)) == 2, what="a spare")
        (spare,) = set(kernel.children_of(zygote)) - {pid}
        self.assertEqual(self.ready(env={"NAME": "second"}).run(1).json, [spare, zygote, "second"])

    def test_a_spare_with_other_limits_than_asked_for_is_not_used(self):
        link = self.ready("import os\ndef run():\n    return [os.getpid(), os.getppid()]\n", memoryBytes=2**29, vcpus=1)
        pid, zygote = link.run(1).json
        wait_until(lambda: len(kernel.children_of(zygote)) == 2, what="a spare")
        (spare,) = set(kernel.children_of(zygote)) - {pid}
        self.assertNotEqual(self.ready(memoryBytes=2**28, vcpus=1).run(1).json[0], spare)
        wait_until(lambda: not alive(spare), what="the spare has ended")

    def test_a_killed_spare_harms_nobody(self):
        link = self.ready("import os\ndef run():\n    return [os.getpid(), os.getppid()]\n")
        pid, zygote = link.run(1).json
        wait_until(lambda: len(kernel.children_of(zygote)) == 2, what="a spare")
        (spare,) = set(kernel.children_of(zygote)) - {pid}
        os.kill(spare, signal.SIGKILL)
        wait_until(lambda: not alive(spare))
        self.assertEqual(self.ready().run(1).json[1], zygote)

    def test_thirty_workers_start_from_one_zygote(self):
        self.ready("def run(n):\n    return n\n")
        workers = [self.start() for _ in range(30)]
        for worker in workers:
            self.platform.link(worker).expect(protocol.CREDIT)


class Ending(LauncherTest):
    def test_stop_ends_an_idle_worker_at_once(self):
        link = self.ready("def run():\n    return 1\n")
        self.launcher.send(protocol.STOP, 0, {"worker": link.worker, "graceMs": 60000})
        link.expect(protocol.GOODBYE)
        ended = self.launcher.expect(protocol.EXITED).head
        self.assertEqual((ended["code"], ended["signal"]), (0, None))

    def test_stop_kills_after_the_grace_what_does_not_end(self):
        link = self.ready("import time\ndef run():\n    print('begun')\n    while True: time.sleep(1)\n")
        link.job(1)
        link.expect(protocol.LOG)
        self.launcher.send(protocol.STOP, 0, {"worker": link.worker, "graceMs": 50})
        ended = self.launcher.expect(protocol.EXITED).head
        self.assertEqual(
            (ended["signal"], ended["reason"]), ("SIGKILL", "killed: it did not stop within the grace period")
        )

    def test_a_dead_workers_whole_tree_is_killed_also_after_a_double_fork_and_setsid(self):
        link = self.ready(
            """
            import os, subprocess, time, signal
            def run():
                read, write = os.pipe()
                if os.fork() == 0:
                    os.setsid()
                    if os.fork() == 0:
                        signal.signal(signal.SIGTERM, signal.SIG_IGN)
                        os.write(write, str(os.getpid()).encode())
                        os.execv("/bin/sleep", ["sleep", "600"])
                    os._exit(0)
                child = subprocess.Popen(["/bin/sh", "-c", "sleep 601 & wait"], start_new_session=True)
                return [int(os.read(read, 20)), child.pid]
            """
        )
        pids = link.run(1).json
        self.assertTrue(all(alive(pid) for pid in pids))
        self.launcher.send(protocol.STOP, 0, {"worker": link.worker, "graceMs": 0})
        self.launcher.expect(protocol.EXITED)
        wait_until(lambda: not any(alive(pid) for pid in pids), what="the whole tree is gone")

    def test_a_double_forked_child_of_a_living_worker_is_left_alone(self):
        source = """
            import os
            def run():
                read, write = os.pipe()
                if os.fork() == 0:
                    if os.fork() == 0:
                        os.write(write, str(os.getpid()).encode())
                        os.execv("/bin/sleep", ["sleep", "600"])
                    os._exit(0)
                return int(os.read(read, 20))
        """
        link = self.ready(source)
        orphan = link.run(1).json
        other = self.ready()
        os.kill(self.launcher.expect(protocol.STARTED, worker=other.worker).head["pid"], signal.SIGKILL)
        self.launcher.expect(protocol.EXITED, worker=other.worker)
        self.assertTrue(alive(orphan))

    def test_a_process_that_a_function_forks_never_speaks_for_the_worker(self):
        link = self.ready(
            """
            import os, sys
            def run():
                if os.fork() == 0:
                    print("from the child")
                    return "child"
                os.wait()
                return "parent"
            """
        )
        self.assertEqual(link.run(1).json, "parent")
        self.assertEqual(self.launcher.expect(protocol.LOG).body, b"from the child\n")
        self.assertEqual(link.run(2).json, "parent")
        self.assertEqual(link.seen(protocol.RESULT), [])

    def test_multiprocessing_works_inside_a_function(self):
        link = self.ready(
            """
            import multiprocessing
            def square(n): return n * n
            def run():
                with multiprocessing.get_context("fork").Pool(2) as pool:
                    return pool.map(square, [1, 2, 3])
            """
        )
        self.assertEqual(link.run(1).json, [1, 4, 9])

    def test_exit_codes_and_signals_are_reported_in_words(self):
        source = "import os\ndef run(code=None, signal=None):\n    os._exit(code) if code else os.kill(os.getpid(), signal)\n"
        self.ready(source).job(1, {"code": 3})
        self.assertEqual(
            self.launcher.expect(protocol.EXITED).head,
            {"worker": "w-1", "code": 3, "signal": None, "reason": "exited with code 3"},
        )
        self.ready().job(1, {"signal": int(signal.SIGSEGV)})
        self.assertEqual(self.launcher.expect(protocol.EXITED).head["reason"], "killed by SIGSEGV")

    def test_the_temporary_directory_is_the_workers_own_and_goes_with_it(self):
        link = self.ready(
            "import tempfile, os\ndef run():\n    path = tempfile.mkdtemp()\n    open(path + '/f', 'w').close()\n    return path\n"
        )
        path = link.run(1).json
        self.assertTrue(path.startswith(os.path.join(self.directory, "tmp", link.worker)))
        self.launcher.send(protocol.STOP, 0, {"worker": link.worker, "graceMs": 0})
        self.launcher.expect(protocol.EXITED)
        wait_until(lambda: not os.path.exists(os.path.join(self.directory, "tmp", link.worker)))

    def test_retire_ends_the_zygote_after_its_last_worker(self):
        link = self.ready("import os\ndef run():\n    return os.getppid()\n")
        zygote = link.run(1).json
        self.launcher.send(protocol.RETIRE, 0, {"zygote": "ep-hello:b-1"})
        self.assertEqual(self.ready().run(1).json != zygote, True)
        self.assertTrue(alive(zygote))
        link.send(protocol.DRAIN, 0, {"graceMs": 1000})
        wait_until(lambda: not alive(zygote))

    def test_shutdown_leaves_nothing_running(self):
        link = self.ready(
            "import os, subprocess\ndef run():\n    return [os.getpid(), os.getppid(), subprocess.Popen(['sleep', '600']).pid]\n"
        )
        pids = link.run(1).json
        self.launcher.send(protocol.SHUTDOWN, 0, {"graceMs": 5000})
        self.assertEqual(self.process.wait(WAIT_S), 0)
        wait_until(lambda: not any(alive(pid) for pid in pids))

    def test_a_killed_launcher_takes_its_workers_along(self):
        link = self.ready("import os\ndef run():\n    return [os.getpid(), os.getppid()]\n")
        pids = link.run(1).json
        self.process.kill()
        self.process.wait()
        wait_until(lambda: not any(alive(pid) for pid in pids))

    def test_an_output_flood_is_cut_and_counted_and_harms_no_other_worker(self):
        source = "import os\ndef run(n, how):\n    for i in range(n):\n        if how == 'raw': os.write(1, b'x' * 1000 + b'\\n')\n        else: print('y' * 1000)\n    return n\n"
        flood, quiet = self.ready(source), self.ready()
        flood.job(1, {"n": 50_000, "how": "raw"})
        flood.job(2, {"n": 50_000, "how": "print"})
        self.assertEqual(quiet.run(1, {"n": 0, "how": ""}).json, 0)
        self.assertEqual(flood.result(1).json, 50_000)
        self.assertEqual(flood.result(2).json, 50_000)
        raw = sum(len(frame.body) for frame in self.launcher.seen(protocol.LOG))
        printed = sum(len(frame.body) for frame in flood.seen(protocol.LOG))
        self.assertTrue(0 < raw < 12_000_000, raw)
        self.assertTrue(0 < printed < 12_000_000, printed)

    def test_an_endless_line_is_cut_short(self):
        link = self.ready("import os\ndef run():\n    os.write(1, b'z' * 100_000)\n    os.write(1, b'end\\nnext\\n')\n")
        link.run(1)
        self.launcher.send(protocol.STOP, 0, {"worker": link.worker, "graceMs": 1000})
        self.launcher.expect(protocol.EXITED)
        lines = b"".join(frame.body for frame in self.launcher.seen(protocol.LOG)).splitlines()
        self.assertEqual(len(lines), 2)
        self.assertTrue(lines[0].endswith(b"[line cut]") and len(lines[0]) < 17_000)
        self.assertEqual(lines[1], b"next")

    def test_the_memory_limit_ends_a_worker_with_the_cause_or_its_job_with_an_error(self):
        link = self.ready(
            "def run():\n    data = bytearray(300_000_000)\n    return len(data)\n",
            memoryBytes=128 * 1024 * 1024,
            vcpus=1,
        )
        limits = self.launcher.expect(protocol.STARTED).head["limits"]
        link.job(1)
        if limits.startswith("cgroup"):
            ended = self.launcher.expect(protocol.EXITED).head
            self.assertEqual((ended["signal"], ended["reason"]), ("SIGKILL", "killed: memory limit 0.125 GB"))
        else:
            self.assertEqual(limits, "rlimit")
            self.assertEqual(link.result(1).json["error_type"], "MemoryError")


class ToldToEnd(LauncherTest):
    program = [
        "-c",
        f"""
import signal, sys
sys.path.insert(0, {str(SOURCE)!r})
from svc._runtime import launcher

class Record(launcher.WorkerRecord):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        signal.raise_signal(signal.SIGTERM)

launcher.WorkerRecord = Record
launcher.main()
""",
    ]

    def test_by_a_signal_in_the_midst_of_a_start_it_ends_with_that_worker(self):
        self.start("def run():\n    return 1\n")
        self.assertEqual(self.process.wait(WAIT_S), 0)


if __name__ == "__main__":
    unittest.main()
