"""What a GPU takes of silicon and of power, first order: so that a what-if can be weighed against mm2 and watts.

Every number it rests on is assumed or fitted (`hardware/silicon`); docs/area-and-power.md says how far the known dies
are off. A changed GPU is priced by blocks: each block of its die is scaled by what was changed of the GPU.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..content.gpu import GpuFile, load_gpu
from ..content.silicon import Die, Silicon, load_silicon
from ..errors import UserError

LABEL = "assumed, first order"
UM2 = 1e-6  # mm2
# what a large GEMM that the tensor cores bind keeps busy (README, H200, 8192 x 8192 x 8192)
ACTIVITY = {"tensor": 0.85, "smem": 0.8, "l2": 0.36, "ddr": 0.24}
# fields of a GPU that move the area; all others leave it as it is
AREA_FIELDS = (
    *("sm_count", "tensor_flop_per_clock_sm", "cuda_flop_per_clock_sm", "registers_per_sm", "smem_per_sm_bytes"),
    *("tmem_columns", "sm_port_bytes_per_clock", "l15_capacity_bytes", "l2_capacity_bytes", "l2_bytes_per_s"),
    "ddr_bytes_per_s",
)
ASSUMPTIONS = (
    "areas: hardware/silicon, calibrated on six dies; spare SMs, cache and PHYs grow with what is used",
    "area follows SMs, tensor and CUDA rates, registers, shared memory, TMEM, ports, L1.5, L2's size and rate, and "
    "memory's rate; a faster clock, lower latencies and higher efficiencies take none",
    "power: joules of the GPU file at boost, without the power limit; static power grows with the area, joules on the "
    "die with the clock (voltage)",
)


@dataclass(frozen=True)
class AreaPower:
    """Area and power of a GPU, assumed and first order.

    Attributes:
        gpu: its name.
        like: the GPU file whose die is known: the GPU itself, or what it is based on.
        die, node: names in `hardware/silicon`.
        areas_mm2: block -> mm2.
        like_mm2: the model's area of `like` as it is.
        published_mm2: the published or reported area of that die.
        powers_w: part -> watts at `ACTIVITY`, at boost, without the power limit.
        static_w: the GPU file's own static power, as the model has it in `energy_j`.
        voltage: joules on the die over those of `like`: its clock over that of `like`.
        assumptions: what this rests on, a line each.
    """

    gpu: str
    like: str
    die: str
    node: str
    areas_mm2: Mapping[str, float]
    like_mm2: float
    published_mm2: float
    powers_w: Mapping[str, float]
    static_w: float
    voltage: float
    assumptions: tuple[str, ...] = ASSUMPTIONS

    @property
    def area_mm2(self) -> float:
        """The sum of `areas_mm2`."""
        return sum(self.areas_mm2.values())

    @property
    def power_w(self) -> float:
        """The sum of `powers_w`."""
        return sum(self.powers_w.values())

    @property
    def error(self) -> float:
        """How far the model's area of `like` is from the published one: 0.07 is 7 % too large."""
        return self.like_mm2 / self.published_mm2 - 1

    def kernel_power_w(self, energy_j: Any, latency_s: Any) -> Any:
        """Mean watts of a kernel, from the model's energy and latency (numbers or arrays of one shape).

        The model's energy has the GPU file's static watts and joules; here static power grows with the area and
        dynamic power with the voltage.
        """
        return (energy_j / latency_s - self.static_w) * self.voltage + self.powers_w["static"]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, totals included."""
        totals = {"label": LABEL, "area_mm2": self.area_mm2, "power_w": self.power_w, "error": self.error}
        return {**asdict(self), **totals, "assumptions": list(self.assumptions)}


def area_power(gpu: GpuFile, silicon: Silicon | None = None) -> AreaPower:
    """Area and power of a GPU, with or without overrides.

    Args:
        gpu: a packaged GPU, or one that is based on a GPU whose die is known.
        silicon: what is known of dies; None: `load_silicon()`.

    Raises:
        UserError: no die is known for the GPU.
    """
    if not isinstance(gpu, GpuFile):
        raise UserError(f"gpu = {gpu!r} is no GPU file: load it, area_power(load_gpu('h200_sxm'))")
    known = silicon or load_silicon()
    name, die = known.die_of(gpu)
    like = gpu if gpu.name == name and not gpu.changes else load_gpu(name)
    areas = _areas(gpu, like, die, known)
    before = areas if like is gpu else _areas(like, like, die, known)
    grown = sum(areas.values()) / sum(before.values())
    voltage = gpu["boost_hz"] / like["boost_hz"]
    return AreaPower(
        gpu=gpu.name,
        like=name,
        die=die.name,
        node=die.node,
        areas_mm2=areas,
        like_mm2=sum(before.values()),
        published_mm2=die.values["published_mm2"].number,
        powers_w=_powers(gpu, grown, voltage),
        static_w=gpu["static_w"],
        voltage=voltage,
    )


def known_area_power(gpu: GpuFile, silicon: Silicon | None = None) -> AreaPower | None:
    """As `area_power`, but None where no die is known for the GPU."""
    known = silicon or load_silicon()
    return area_power(gpu, known) if known.found(gpu) else None


def area_mm2(gpu: GpuFile) -> dict[str, float]:
    """Block -> mm2 of a GPU; their sum is its area. Raises as `area_power`."""
    return dict(area_power(gpu).areas_mm2)


def power_w(gpu: GpuFile) -> dict[str, float]:
    """Part -> watts at `ACTIVITY`, at boost and without the power limit. Raises as `area_power`."""
    return dict(area_power(gpu).powers_w)


def _areas(gpu: GpuFile, like: GpuFile, die: Die, silicon: Silicon) -> dict[str, float]:
    block = {name: datum.number for name, datum in silicon.blocks.items()}
    node = {name: datum.number for name, datum in silicon.nodes[die.node].values.items()}
    built = {name: datum.number for name, datum in die.values.items()}

    def grown(name: str) -> float:
        return gpu[name] / like[name] if like[name] else 1.0

    def logic(transistors: float) -> float:
        return transistors / node["logic_transistors_per_mm2"]

    def sram(size_bytes: float, efficiency: str) -> float:
        return size_bytes * 8 * node["sram_bitcell_um2"] * UM2 / block[efficiency]

    sms = built["sm_count"] * grown("sm_count")
    cuda = sum(built[f"{kind}_lanes"] * block[f"{kind}_transistors"] for kind in ("fp32", "int32", "fp64"))
    smem = max(built["smem_l1_bytes"] + gpu["smem_per_sm_bytes"] - like["smem_per_sm_bytes"], 0.0)
    tmem = built["tmem_bytes"] * grown("tmem_columns")
    fma = built["tensor_fma_per_clock"] * _tensor_growth(gpu, like)
    memory = grown("ddr_bytes_per_s")
    phys = built["hbm_stacks"] * block["hbm_phy_mm2"] + built["gddr_channels"] * block["gddr_phy_mm2"]
    controllers = (
        built["hbm_stacks"] * block["hbm_control_transistors"]
        + built["gddr_channels"] * block["gddr_control_transistors"]
    )
    slices = built["l2_bytes_per_clock"] * block["l2_slice_transistors_per_byte_per_clock"] * grown("l2_bytes_per_s")
    return {
        "tensor cores": sms * logic(fma * block["tensor_transistors_per_fma"]),
        "CUDA cores": sms * logic(cuda * grown("cuda_flop_per_clock_sm")),
        "register files": sms * sram(built["register_bytes"] * grown("registers_per_sm"), "register_file_efficiency"),
        "shared memory and L1": sms * sram(smem + tmem, "smem_efficiency"),
        "rest of the SMs": sms * logic(block["sm_other_transistors"]),
        "on-chip interconnect": sms * logic(block["crossbar_transistors_per_sm"] * grown("sm_port_bytes_per_clock"))
        + sms * sram(gpu["l15_capacity_bytes"] / gpu["l15_group_sms"], "smem_efficiency"),
        "L2 SRAM": sram(built["l2_bytes"] * grown("l2_capacity_bytes"), "l2_efficiency"),
        "L2 slices": logic(slices),
        "memory PHYs": phys * memory,
        "memory controllers": logic(controllers * memory),
        "NVLink and PCIe": built["link_phy_mm2"] + logic(built["link_control_transistors"]),
        "other": built["dies"] * logic(block["other_transistors"]),
    }


def _tensor_growth(gpu: GpuFile, like: GpuFile) -> float:
    """The rate that grew most: the widest engine sets what a tensor core takes."""
    before = {(family, pair): d.number for family, rates in like.tensor.items() for pair, d in rates.items()}
    after = {(family, pair): d.number for family, rates in gpu.tensor.items() for pair, d in rates.items()}
    both = [after[key] / before[key] for key in before if key in after and before[key]]
    return max(both) if both else max(after.values()) / max(before.values())


def _powers(gpu: GpuFile, grown: float, voltage: float) -> dict[str, float]:
    rates = [(pair, d.number) for pairs in gpu.tensor.values() for pair, d in pairs.items()]
    wide = [rate for pair, rate in rates if pair.startswith(("bf16_", "fp16_"))] or [rate for _, rate in rates]
    clocks = gpu["sm_count"] * gpu["boost_hz"]
    flop_per_s = clocks * max(wide) * gpu["tensor_efficiency"] * ACTIVITY["tensor"]
    smem = clocks * gpu["smem_bytes_per_clock_sm"] * ACTIVITY["smem"]
    return {
        "tensor cores": flop_per_s * gpu["joule_per_tensor_flop"] * voltage,
        "shared memory": smem * gpu["joule_per_smem_byte"] * voltage,
        "L2": gpu["l2_bytes_per_s"] * ACTIVITY["l2"] * gpu["joule_per_l2_byte"] * voltage,
        "memory": gpu["ddr_bytes_per_s"] * ACTIVITY["ddr"] * gpu["joule_per_ddr_byte"],
        "static": gpu["static_w"] * grown,
    }
