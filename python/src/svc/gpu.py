"""The public catalogue of GPUs. A type's value is the product string that `nvidia-smi` prints."""

from enum import Enum


class GpuGroup(Enum):
    """A pool of GPUs of one generation and memory size; any member of it may run the endpoint."""

    ANY = "ANY"
    """Any available GPU: best availability."""
    AMPERE_16 = "AMPERE_16"
    """RTX A4000, RTX A4500, RTX 4000 Ada, RTX 2000 Ada: 16 GB."""
    AMPERE_24 = "AMPERE_24"
    """RTX A5000, L4, RTX 3090: 24 GB."""
    AMPERE_48 = "AMPERE_48"
    """A40, RTX A6000: 48 GB."""
    AMPERE_80 = "AMPERE_80"
    """A100 PCIe, A100 SXM: 80 GB."""
    ADA_24 = "ADA_24"
    """RTX 4090: 24 GB."""
    ADA_32_PRO = "ADA_32_PRO"
    """RTX 5090: 32 GB."""
    ADA_48_PRO = "ADA_48_PRO"
    """RTX 6000 Ada, L40, L40S: 48 GB."""
    ADA_80_PRO = "ADA_80_PRO"
    """H100: 80 GB."""
    HOPPER_141 = "HOPPER_141"
    """H200: 141 GB."""
    BLACKWELL_96 = "BLACKWELL_96"
    """RTX PRO 6000 Blackwell: 96 GB."""
    BLACKWELL_180 = "BLACKWELL_180"
    """B200: 180 GB."""


class GpuType(Enum):
    """One GPU product."""

    NVIDIA_RTX_A4000 = "NVIDIA RTX A4000"
    NVIDIA_RTX_A4500 = "NVIDIA RTX A4500"
    NVIDIA_RTX_4000_ADA_GENERATION = "NVIDIA RTX 4000 Ada Generation"
    NVIDIA_RTX_2000_ADA_GENERATION = "NVIDIA RTX 2000 Ada Generation"
    NVIDIA_RTX_A5000 = "NVIDIA RTX A5000"
    NVIDIA_L4 = "NVIDIA L4"
    NVIDIA_GEFORCE_RTX_3090 = "NVIDIA GeForce RTX 3090"
    NVIDIA_A40 = "NVIDIA A40"
    NVIDIA_RTX_A6000 = "NVIDIA RTX A6000"
    NVIDIA_A100_80GB_PCIe = "NVIDIA A100 80GB PCIe"
    NVIDIA_A100_SXM4_80GB = "NVIDIA A100-SXM4-80GB"
    NVIDIA_GEFORCE_RTX_4090 = "NVIDIA GeForce RTX 4090"
    NVIDIA_GEFORCE_RTX_5090 = "NVIDIA GeForce RTX 5090"
    NVIDIA_RTX_6000_ADA_GENERATION = "NVIDIA RTX 6000 Ada Generation"
    NVIDIA_L40 = "NVIDIA L40"
    NVIDIA_L40S = "NVIDIA L40S"
    NVIDIA_H100_80GB_HBM3 = "NVIDIA H100 80GB HBM3"
    NVIDIA_H100_PCIe = "NVIDIA H100 PCIe"
    NVIDIA_H200 = "NVIDIA H200"
    NVIDIA_RTX_PRO_6000_BLACKWELL_SERVER_EDITION = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    NVIDIA_RTX_PRO_6000_BLACKWELL_WORKSTATION_EDITION = "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"
    NVIDIA_RTX_PRO_6000_BLACKWELL_MAX_Q_WORKSTATION_EDITION = (
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
    )
    NVIDIA_B200 = "NVIDIA B200"
