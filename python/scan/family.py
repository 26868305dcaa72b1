"""Names of the package that stand for plain texts or for a bundle of settings: projects of the same family have them."""

from __future__ import annotations

#: Classes whose arguments are read like those of an Endpoint.
MADE = ("NetworkVolume", "PodTemplate", "Retries", "Volume")
#: Whose members, and how many GB each has to a vCPU.
_FAMILIES = {"cpu3g": 4, "cpu3c": 2, "cpu5c": 2}
_CPU_TYPES = {
    f"{family}_{vcpus}_{vcpus * gb}".upper(): f"{family}-{vcpus}-{vcpus * gb}"
    for family, gb in _FAMILIES.items()
    for vcpus in (1, 2, 4, 8)
}
_SCALER_TYPES = {"QUEUE_DELAY": "QUEUE_DELAY", "REQUEST_COUNT": "REQUEST_COUNT"}


def text_of(family: str, member: str) -> str | None:
    """What `family.member` is worth; None where it is none of these."""
    if family == "CpuInstanceType":
        return _CPU_TYPES.get(member)
    if family == "ServerlessScalerType":
        return _SCALER_TYPES.get(member)
    if family == "DataCenter" and member:
        return member.replace("_", "-")
    if family == "CudaVersion" and member.startswith("V"):
        return member[1:].replace("_", ".")
    return None
