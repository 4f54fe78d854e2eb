"""Which fabric GPUs of a kind are sold with, where nobody names one."""

from ..errors import UserError
from .gpu import GpuFile

NODES = {  # beginning of a GPU's name -> (what joins a node, what joins nodes)
    "a100": ("nvlink3_x8", "infiniband_hdr"),
    "h100_pcie": ("pcie5_x8", "infiniband_ndr"),
    "h100": ("nvlink4_x8", "infiniband_ndr"),
    "h200": ("nvlink4_x8", "infiniband_ndr"),
    "b200": ("nvlink5_x8", "infiniband_ndr"),
    "l40s": ("pcie4_x8", "infiniband_hdr"),
    "rtx_3090": ("pcie4_x8", "infiniband_hdr"),
    "rtx_4090": ("pcie4_x8", "infiniband_hdr"),
    "rtx_5090": ("pcie5_x8", "infiniband_ndr"),
    "rtx_pro_6000": ("pcie5_x8", "infiniband_ndr"),
}
NODE_GPUS = 8


def default_fabric(gpu: GpuFile, gpus: int = NODE_GPUS) -> str:
    """What joins GPUs of this kind: a node, and a network where there are more of them than a node holds.

    Raises:
        UserError: a GPU that is not known by its name, nor built on one that is.
    """
    for name in (gpu.name, *gpu.bases):
        known = next((pair for start, pair in NODES.items() if name.startswith(start)), None)
        if known:
            return known[0] if gpus <= NODE_GPUS else "+".join(known)
    raise UserError(
        f"no fabric is known for the GPU {gpu.name}: say what joins them with --fabric, e.g. --fabric nvlink4_x8, or "
        "nvlink4_x8+infiniband_ndr (dse fabrics)"
    )
