"""The SDK: declared functions look and behave like the functions they are."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import os
import pickle
import re
import subprocess
import sys
import typing
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import ROOT, SOURCE

sys.path.append(str(ROOT / "python"))

import svc
from scan.family import text_of
from svc import Endpoint, GpuGroup, GpuType, Secret
from svc._runtime import limits
from svc.endpoint import DECLARED
from svc.options import variant_name


@Endpoint(name="module-level")
def declared_here(n: int) -> int:
    return n


class Declaration(unittest.TestCase):
    def test_a_decorated_function_is_recorded_and_looks_like_itself_and_a_class_stays_as_it_is(self):
        def hello(name: str, times: int = 1) -> str:
            """Greets."""
            return f"hi {name}"

        hello.note = "kept"

        class Model:
            pass

        endpoint = Endpoint(name="one", cpu="cpu3c-1-2")
        declared = endpoint(hello)
        self.assertIs(endpoint(Model), Model)
        self.assertEqual(endpoint.functions, [hello, Model])
        self.assertIs(declared.__wrapped__, hello)
        self.assertEqual((declared.__name__, declared.__doc__, declared.note), ("hello", "Greets.", "kept"))
        self.assertEqual(declared.__module__, __name__)
        self.assertEqual(declared.__code__, hello.__code__)
        self.assertEqual(inspect.signature(declared), inspect.signature(hello))
        self.assertEqual(typing.get_type_hints(declared), {"name": str, "times": int, "return": str})
        self.assertEqual(declared.local("x"), "hi x")
        self.assertIn("hello of endpoint 'one' (queue-based)", repr(declared))

    def test_a_declared_function_is_pickled_and_copied_by_its_name(self):
        self.assertIs(pickle.loads(pickle.dumps(declared_here)), declared_here)
        self.assertIs(copy.deepcopy(declared_here), declared_here)

    def test_a_declared_async_function_is_known_as_one(self):
        async def wait():
            pass

        for is_async in (inspect.iscoroutinefunction, asyncio.iscoroutinefunction):
            self.assertTrue(is_async(Endpoint(name="one")(wait)))
            self.assertFalse(is_async(declared_here))

    def test_a_client_by_id_declares_nothing(self):
        before = len(DECLARED)
        client = Endpoint(id="ep-1")
        self.assertIsInstance(client, svc.EndpointClient)
        self.assertEqual(len(DECLARED), before)
        with self.assertRaisesRegex(TypeError, "declares none"):
            client(lambda: 1)
        with self.assertRaisesRegex(TypeError, "an id or a name"):
            svc.EndpointClient()

    def test_routes_are_recorded_by_method_and_path(self):
        api = Endpoint(name="api")
        for method in ("get", "post", "put", "patch", "delete", "head", "options"):

            def route():
                return method

            declared = getattr(api, method)("/x")(route)
            self.assertEqual((declared.__wrapped__, declared.route), (route, (method.upper(), "/x")))
            self.assertIs(api.routes[(method.upper(), "/x")], route)
        with self.assertRaisesRegex(ValueError, "starts with '/'"):
            api.get("x")

    def test_an_unknown_keyword_names_the_nearest(self):
        with self.assertRaisesRegex(TypeError, "no parameter 'worker'; did you mean 'workers'?"):
            Endpoint(name="x", worker=3)
        with self.assertRaisesRegex(TypeError, "(?s)'idle_timout'.*'idle_timeout'.*'zzz'; it takes name, gpu"):
            Endpoint(name="x", idle_timout=3, zzz=1)

    def test_the_name_is_the_first_argument_or_that_of_the_function(self):
        def Resize_Image():
            pass

        class Model:
            pass

        self.assertEqual(Endpoint("one").name, "one")
        self.assertEqual(Endpoint()(Resize_Image).endpoint.name, "resize_image")
        unnamed = Endpoint(cpu="cpu3c-1-2")
        unnamed(Model)
        self.assertEqual(unnamed.name, "model")
        with self.assertRaisesRegex(TypeError, "an endpoint's name is a text"):
            Endpoint(Resize_Image)

    def test_a_project_of_the_same_family_declares_with_its_own_words(self):
        endpoint = Endpoint(
            "x", cpu=[svc.CpuInstanceType.CPU3C_1_2], datacenter=svc.DataCenter.ANYWHERE, flashboot=True,
            template=svc.PodTemplate(imageName="i"), accelerate_downloads=True, min_cuda_version=svc.CudaVersion.V12_8,
            system_dependencies=["ffmpeg"], volume=svc.NetworkVolume(name="models", size=50),
            scaler_type=svc.ServerlessScalerType.QUEUE_DELAY,
        )  # fmt: skip
        self.assertEqual(endpoint.name, "x")
        with self.assertRaisesRegex(TypeError, "has a name"):
            svc.NetworkVolume(size=50)

    def test_an_image_is_data_that_its_methods_do_not_change(self):
        base = svc.Image.from_registry("python:3.12-slim").apt("ffmpeg", "git=1:2")
        more = base.run("make").env(MODE="fast")
        self.assertEqual((base.name, base.steps), ("python:3.12-slim", (("apt", ("ffmpeg", "git=1:2")),)))
        self.assertEqual(more.steps[1:], (("run", ("make",)), ("env", {"MODE": "fast"})))
        self.assertEqual(svc.Image.debian().name, "")
        self.assertIs(Endpoint(name="x", image=more, system_dependencies=["git"]).settings["image"], more)
        for wrong in (lambda: svc.Image.from_registry(""), lambda: base.apt(7), lambda: base.env(A=svc.Secret("A"))):
            with self.assertRaises(TypeError):
                wrong()

    def test_gpu_and_cpu_exclude_each_other(self):
        with self.assertRaisesRegex(TypeError, "gpu or cpu, not both"):
            Endpoint(name="x", gpu=GpuGroup.ANY, cpu="cpu3c-1-2")

    def test_every_documented_parameter_is_taken(self):
        endpoint = Endpoint(
            name="x", gpu=[GpuType.NVIDIA_L4, GpuGroup.ADA_24], workers=(1, 2), idle_timeout=5, dependencies=["a"],
            max_concurrency=2, execution_timeout_ms=5000, scaler_type="QUEUE_DELAY", scaler_value=1, env={"A": "b"},
            image="i", volume="v", volumes={"/v": "w"}, python_version="3.12", gpu_count=2, boot="OFF",
        )  # fmt: skip
        self.assertEqual(len(endpoint.settings), 16)

    def test_outside_a_worker_context_is_empty_and_progress_prints(self):
        self.assertEqual((svc.context().job_id, svc.context().cancelled, svc.context().remaining_s), ("", False, None))
        code = "import svc; svc.progress({'a': 1})"
        run = subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True
        )
        self.assertEqual(run.stderr, "progress: {'a': 1}\n")


class DeclaredClass(unittest.TestCase):
    def test_a_declared_class_stays_the_class_it_was(self):
        model = Model("large", layers=3)
        self.assertIs(type(model), Model)
        self.assertEqual((model.size, model.layers, Model.local("small").size), ("large", 3, "small"))
        self.assertEqual(str(inspect.signature(Model)), "(size='base', *, layers=1)")
        for again in (copy.copy(model), pickle.loads(pickle.dumps(model))):
            self.assertEqual((type(again), again.size), (Model, "large"))
        with self.assertRaisesRegex(TypeError, r"Bare\(\) takes no arguments"):
            Bare(1)

    def test_its_own_new_and_its_own_local_are_kept(self):
        class Single:
            made = None

            def __new__(cls):
                cls.made = cls.made or super().__new__(cls)
                return cls.made

            def local(self):
                return "its own"

        Endpoint(name="single")(Single)
        self.assertIs(Single(), Single())
        self.assertEqual(Single().local(), "its own")


    def test_options_make_it_an_endpoint_of_its_own_with_their_values(self):
        self.assertEqual((Sized.size, Sized().made_with, Sized.local().layers), ("small", "small", 12))
        self.assertTrue(issubclass(Large, Sized))
        self.assertEqual((Large.size, Large().made_with, Large.__module__), ("large", "large", __name__))
        by_name = {one.name: one for one in DECLARED if [each for each in one.functions if Sized in getattr(each, "__mro__", ())]}
        self.assertEqual(list(by_name), ["sized", "sized-large", "sized-24-quantized", "exact"])
        self.assertEqual(by_name["sized-large"].settings["gpu"], GpuGroup.ANY)
        self.assertNotIn("cpu", by_name["sized-large"].settings)
        self.assertEqual(by_name["exact"].settings["cpu"], "cpu3c-1-2")
        self.assertEqual(svc.remote(Large).say.endpoint.name, "sized-large")
        self.assertEqual(
            [variant_name("a", {"x": value}) for value in ("Big One", 3, 0.5, 1.0, False)],
            ["a-big-one", "a-3", "a-0-5", "a-1-0", "a-no-x"],
        )
        for given, why in (
            ({"sise": "large"}, "has no option 'sise'"), ({"size": "huge"}, "is one of 'small', 'large'"), ({"layers": {1}}, "JSON"),
        ):  # fmt: skip
            with self.assertRaisesRegex((TypeError, ValueError), why):
                Sized.with_options(**given)
        with self.assertRaisesRegex(TypeError, "no class that an Endpoint declares"):
            svc.with_options(dict, size=1)
        with self.assertRaisesRegex(ValueError, "is one of"):
            svc.option("a", choices=["b"])


class Layered:
    layers = svc.option(12)


@Endpoint("sized", cpu="cpu3c-1-2")
class Sized(Layered):
    size: str = svc.option("small", choices=["small", "large"])
    quantized: bool = svc.option(False)

    def __init__(self):
        self.made_with = self.size

    def say(self):
        return self.made_with


Large = Sized.with_options(size="large", gpu=GpuGroup.ANY)
svc.with_options(Sized, quantized=True, layers=24)
svc.with_options(Sized, name="exact", layers=1)


@Endpoint(name="bare")
class Bare:
    def run(self):
        return None


@Endpoint(name="model")
class Model:
    def __init__(self, size="base", *, layers=1):
        self.size = size
        self.layers = layers


class SameOnBothSides(unittest.TestCase):
    def test_the_gpu_catalogue_is_that_of_the_platform(self):
        text = (ROOT / "src/domain/gpu.ts").read_text()
        types = dict(re.findall(r'member: "(\w+)",\s*product: "([^"]+)"', text))
        self.assertEqual({one.name: one.value for one in GpuType}, {"ANY": "ANY", **types})
        groups = re.findall(r"^  ([A-Z0-9_]+): \[", text, re.M)
        self.assertEqual([one.name for one in GpuGroup], ["ANY", *groups])
        self.assertTrue(all(one.name == one.value for one in GpuGroup))

    def test_the_machine_types_are_those_of_the_platform_and_of_the_scan(self):
        text = (ROOT / "src/domain/machine-type.ts").read_text()
        families = re.findall(r"(cpu\w+): \{ vcpus: \[([\d, ]+)\], gbPerVcpu: (\d)", text)
        ids = [f"{family}-{n}-{int(n) * int(gb)}" for family, sizes, gb in families for n in sizes.split(", ")]
        self.assertEqual([one.value for one in svc.CpuInstanceType], ids)
        for one in (*svc.CpuInstanceType, *svc.ServerlessScalerType):
            self.assertEqual(text_of(type(one).__name__, one.name), one.value)
        for one in (svc.DataCenter.EU_RO_1, svc.CudaVersion.V12_8):
            self.assertIn(one.value, ("EU-RO-1", "12.8"))
        self.assertEqual(text_of("DataCenter", "EU_RO_1"), svc.DataCenter("EU-RO-1"))
        self.assertEqual(text_of("CudaVersion", "V12_8"), svc.CudaVersion.V12_8)

    def test_the_limits_are_those_of_the_platform(self):
        files = sorted((ROOT / "src/domain").glob("*limits.ts"))
        text = "".join(file.read_text() for file in files)
        self.assertIn("FRAME_MAX_BYTES = 64 * MB", text)
        self.assertEqual(limits.FRAME_MAX_BYTES, 64 * 1024**2)
        self.assertIn("RECONNECT_MAX_MS = 600_000", text)
        self.assertEqual(limits.RECONNECT_DEFAULT_MS, 600_000)
        self.assertIn("LOG_FRAME_MAX_BYTES = 64 * KB", text)
        self.assertEqual(limits.LOG_FRAME_MAX_BYTES, 64 * 1024)
        self.assertIn("LOG_LINE_MAX_BYTES = 16 * KB", text)
        self.assertEqual(limits.LOG_LINE_MAX_BYTES, 16 * 1024)

    def test_there_is_one_version(self):
        self.assertEqual(json.loads((ROOT / "package.json").read_text())["version"], svc.__version__)


class Lightness(unittest.TestCase):
    def test_a_secret_is_a_name_and_nothing_else(self):
        self.assertEqual(repr(Secret("HF_TOKEN")), "Secret('HF_TOKEN')")
        endpoint = Endpoint(name="with-secret", env={"TOKEN": Secret(name="db.password-1")})
        self.assertEqual(endpoint.settings["env"]["TOKEN"].name, "db.password-1")
        for bad in ("", "1a", "a b", "-a", ".a", "é", "a" * 64, None, 3):
            with self.assertRaises(ValueError, msg=repr(bad)):
                Secret(bad)

    def test_the_sdk_imports_nothing_heavy(self):
        code = "import sys, svc; print(sorted(set(sys.modules) & {'typing', 'asyncio', 'inspect', 'dataclasses', 'json', 'socket'}))"
        run = subprocess.run(
            [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(SOURCE)!r}); {code}"],
            capture_output=True,
            text=True,
        )
        self.assertEqual(run.stdout.strip(), "[]")


if __name__ == "__main__":
    unittest.main()
