"""Names that projects of the same family import: their files build here once the import line names svc."""

from __future__ import annotations

from enum import Enum

from svc.volume import Volume

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class CpuInstanceType(str, Enum):
    """A machine type for `cpu=`, `<family>-<vCPU>-<GB>`; the text itself does as well."""

    CPU3G_1_4 = "cpu3g-1-4"
    CPU3G_2_8 = "cpu3g-2-8"
    CPU3G_4_16 = "cpu3g-4-16"
    CPU3G_8_32 = "cpu3g-8-32"
    CPU3C_1_2 = "cpu3c-1-2"
    CPU3C_2_4 = "cpu3c-2-4"
    CPU3C_4_8 = "cpu3c-4-8"
    CPU3C_8_16 = "cpu3c-8-16"
    CPU5C_1_2 = "cpu5c-1-2"
    CPU5C_2_4 = "cpu5c-2-4"
    CPU5C_4_8 = "cpu5c-4-8"
    CPU5C_8_16 = "cpu5c-8-16"


class ServerlessScalerType(str, Enum):
    """For `scaler_type=`; the text itself does as well."""

    QUEUE_DELAY = "QUEUE_DELAY"
    REQUEST_COUNT = "REQUEST_COUNT"


class _Members(type):
    """Any member: which ones there are is for another platform to know."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return cls(name)


class DataCenter(str, metaclass=_Members):
    """`DataCenter.EU_RO_1` is the text "EU-RO-1". Workers run on the platform's own machines: it has no meaning here."""

    def __new__(cls, name: str) -> DataCenter:
        return super().__new__(cls, name.replace("_", "-"))

    @property
    def value(self) -> str:
        return str(self)


class CudaVersion(str, metaclass=_Members):
    """`CudaVersion.V12_8` is the text "12.8". The driver of the platform's machines decides: it has no meaning here."""

    def __new__(cls, name: str) -> CudaVersion:
        return super().__new__(cls, name.removeprefix("V").replace("_", "."))

    @property
    def value(self) -> str:
        return str(self)


class NetworkVolume(Volume):
    """A `Volume` by another name.

    name: of the folder that stays, `/volumes/<name>` and `/runpod-volume`; `id` does as well. size: in GB, its `size_limit`.
        What else there is (`datacenter`) has no meaning here. Raises TypeError without a name, ValueError as a `Volume` does.
    """

    def __init__(self, name: str | None = None, *, id: str | None = None, size: int | None = None, **other: Any) -> None:
        if not (name or id):
            raise TypeError('a NetworkVolume has a name: NetworkVolume(name="models")')
        super().__init__(name or id or "", size_limit=f"{size}GB" if size else None)


class PodTemplate:
    """For `template=`: `imageName` and `env` count where the endpoint has none of its own; other fields have no meaning here."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
