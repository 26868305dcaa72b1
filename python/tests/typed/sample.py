"""What a type checker knows of calls. It is checked, never run: a wrong type here is an error, and so is an ignore that ignores nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, AsyncIterator, Coroutine, Iterator

import svc
from svc import CpuInstanceType, DataCenter, Endpoint, EndpointClient, GpuGroup, GpuType, Job, NetworkVolume, PodTemplate
from svc import RemoteFunction, Secret, ServerlessScalerType

if TYPE_CHECKING:
    from typing_extensions import assert_type


@Endpoint(name="plain", cpu="cpu3c-1-2", workers=(0, 3), env={"TOKEN": Secret("TOKEN")})
def plain(x: int, *, name: str = "n") -> str:
    return name * x


@Endpoint(name="again", retries=svc.Retries(3, delay="2s", on=(ConnectionError, "requests.Timeout")))
def again(x: int) -> int:
    return x * svc.context().attempt


@Endpoint(name="later", gpu=[GpuGroup.ADA_24, GpuGroup.ANY])
async def later(x: int) -> float:
    return x / 2


@Endpoint(name="chunks")
def chunks(n: int) -> Iterator[bytes]:
    yield bytes(n)


@Endpoint(name="later-chunks")
async def later_chunks(n: int) -> AsyncIterator[int]:
    yield n


@Endpoint(name="sized", cpu=(16, 64))
def sized() -> None: ...


@Endpoint(name="small", cpu="0.5-1")
def small() -> None: ...


@Endpoint(name="batched")
@svc.batched(max_size=8)
def batched(text: list[str], top: list[int]) -> list[float]:
    return [float(len(each)) for each in text]


@svc.batched()
async def batched_later(text: list[str]) -> list[bytes]:
    return [each.encode() for each in text]


@Endpoint(name="model")
class Model:
    @svc.enter(shared=True)
    def load(self) -> None:
        self.scale = 1.0

    @svc.enter
    async def connect(self) -> None: ...

    @svc.exit
    def close(self) -> None: ...

    def predict(self, text: str) -> list[float]:
        return [float(len(text))]

    async def embed(self, text: str) -> bytes:
        return text.encode()


@Endpoint("sized")
class Sized:
    size: str = svc.option("small", choices=["small", "large"])

    def predict(self, text: str) -> int:
        return len(text + self.size)


Large = svc.with_options(Sized, size="large", gpu=GpuGroup.ANY)

api = Endpoint(name="api")


@api.post("/analyze", public=True)
def analyze(text: str) -> dict[str, int]:
    return {"words": len(text.split())}


@api.websocket("/chat")
async def chat(socket: svc.WebSocket, room: str) -> None:
    await socket.send(room)


def calls() -> None:
    assert_type(plain(1, name="a"), str)
    assert_type(batched("a", 1), float)
    assert_type(batched.spawn("a", 1), Job[float])
    later_batch: Coroutine[Any, Any, bytes] = batched_later("a")
    later_batch.close()
    assert_type(plain.local(1), str)
    assert_type(plain.spawn(1), Job[str])
    assert_type(plain.spawn(1).wait(timeout=5), str)
    assert_type(later.spawn(1).output, float | None)
    assert_type(list(plain.map([1, 2])), list[str])
    assert_type(list(chunks.map(iter(range(3)))), list[Iterator[bytes]])
    assert_type(list(svc.remote(svc.remote(Model).predict).map(["a"])), list[list[float]])
    assert_type(list(later.starmap([(1,)], concurrency=4, ordered=False)), list[float])
    assert_type(list(chunks(3)), list[bytes])
    assert_type(analyze("a b"), dict[str, int])
    assert_type(Model().predict("a"), list[float])
    assert_type(svc.remote(Model).predict("a"), list[float])
    assert_type(svc.remote(svc.remote(Model).predict).spawn("a"), Job[list[float]])
    assert_type(Endpoint("x", gpu=GpuType.ANY, scaler_type=ServerlessScalerType.QUEUE_DELAY), Endpoint)
    assert_type(Endpoint("x", cpu=[CpuInstanceType.CPU3C_1_2], volume=NetworkVolume(name="v", size=9)), Endpoint)
    assert_type(Endpoint("x", datacenter=DataCenter.EU_RO_1, template=PodTemplate(env=[]), flashboot=False), Endpoint)
    assert_type(svc.function("shop/production/plain").spawn(1), Job[Any])
    assert_type(svc.function("plain").map([1], ordered=False), Iterator[Any])
    assert_type(svc.job("id", endpoint="plain").logs(tail=9), list[str])
    assert_type(Large().predict("a"), int)
    assert_type(svc.remote(Large).predict("a"), int)
    assert_type(Endpoint(id="ep-1"), EndpointClient)
    assert_type(Endpoint(name="x"), Endpoint)
    assert_type(Endpoint(name="x", gpu=GpuGroup.ANY, scaler_type="REQUEST_COUNT", boot="OFF"), Endpoint)
    assert_type(Endpoint(name="x", cpu="cpu3c-1-2", scaler_value=2), Endpoint)
    assert_type(Endpoint(id="ep-1").run({"x": 1}), Job[Any])
    assert_type(Endpoint(id="ep-1").health(), dict[str, Any])
    svc.configure(app="shop", environment="staging")


async def awaited() -> None:
    assert_type(await later(1), float)
    assert_type(await later.aio(1), float)
    assert_type(await plain.aio(1), str)
    assert_type(await plain.spawn(1), str)
    assert_type(await (await svc.job_aio("id")).result_aio(), Any)
    assert_type(await (await later.spawn_aio(1)).wait_aio(), float)
    assert_type(await svc.remote(Model).embed("a"), bytes)
    assert_type(await svc.remote(svc.remote(Model).embed).aio("a"), bytes)
    async for number in later_chunks(3):
        assert_type(number, int)
    async for text in plain.starmap_aio([(1, "a")], ordered=False):
        assert_type(text, str)
    async for half in later.map_aio([1]):
        assert_type(half, float)


class Wrong:
    @svc.enter  # type: ignore[type-var]
    def load(self, path: str) -> None: ...


def wrong() -> None:
    svc.enter(share=True)  # type: ignore[call-overload]
    plain("1")  # type: ignore[arg-type]
    plain(1, nam="a")  # type: ignore[call-arg]
    plain()  # type: ignore[call-arg]
    plain.spawn("1")  # type: ignore[arg-type]
    svc.remote(Model).predict(1)  # type: ignore[arg-type]
    analyze(1)  # type: ignore[arg-type]
    plain.map(["1"])  # type: ignore[list-item]
    svc.deploy("plain")  # type: ignore[arg-type]
    later.map_aio(["1"])  # type: ignore[list-item]
    Endpoint(nmae="x")  # type: ignore[call-overload]
    Endpoint("x", "cpu3c-1-2")  # type: ignore[call-overload]
    Endpoint(name="x", gpu=GpuGroup.ANY, cpu="cpu3c-1-2")  # type: ignore[call-overload]
    Endpoint(name="x", cpu=(16, "64"))  # type: ignore[arg-type]
    Endpoint(name="x", cpu=16)  # type: ignore[call-overload]
    Endpoint(name="x", scaler_type="QUEUE")  # type: ignore[call-overload]
    Endpoint(name="x", boot="ON")  # type: ignore[call-overload]
    Endpoint(id="x", name="y")  # type: ignore[call-overload]
    plain(1) + 1  # type: ignore[operator]


def problems() -> str:
    try:
        svc.deploy(plain, later, Model, api)
        return plain(1)
    except svc.DeployFailed as failed:
        return str(failed)
    except svc.JobTimedOut as error:
        return error.job_id
    except svc.RemoteError as error:
        return error.error_type + error.error_traceback
    except svc.CallError as error:
        return error.message
