"""What a GPU costs beside time: quantities that a search may minimise or limit, each from the GPU's file."""

from collections.abc import Callable, Sequence
from functools import cache

from ..content.gpu import GpuFile
from ..content.overrides import CLOCK
from ..content.silicon import Silicon, load_silicon
from .area_power import AREA_FIELDS, area_power

POWER_FIELDS = (
    *(*AREA_FIELDS, CLOCK, "boost_hz", "tensor_efficiency", "smem_bytes_per_clock_sm", "static_w"),
    *("joule_per_tensor_flop", "joule_per_smem_byte", "joule_per_l2_byte", "joule_per_ddr_byte"),
)


def gpu_quantities() -> dict[str, tuple[Callable[[GpuFile], float], Sequence[str]]]:
    """Name -> (function of a GPU's file, fields of a GPU that move it), for `dse.search`.

    `area_mm2` and `power_w` are those of `dse.studies.area_power`: assumed, first order. The functions raise UserError
    where no die is known for the GPU.
    """
    return {"area_mm2": (_area_mm2, AREA_FIELDS), "power_w": (_power_w, POWER_FIELDS)}


@cache
def _silicon() -> Silicon:
    return load_silicon()


def _area_mm2(gpu: GpuFile) -> float:
    return area_power(gpu, _silicon()).area_mm2


def _power_w(gpu: GpuFile) -> float:
    return area_power(gpu, _silicon()).power_w
