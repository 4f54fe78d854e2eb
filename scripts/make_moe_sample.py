"""Makes studies/measured/moe.parquet: measured fused MoE layers, with the schedule that each framework's rule gives.

    pip download --no-deps sglang==0.5.10 vllm==0.24.0   # and unpack both
    python scripts/make_moe_sample.py ../shared/data/measured/moe.parquet --sglang DIR --vllm DIR

DIR holds the unpacked package (DIR/sglang, DIR/vllm): its tuned configs of the fused MoE kernel are read, a file an
(experts, inter, GPU, type). Where there is none, the framework's default rule holds. What rows mean, which are left out
and why: docs/moe.md. With --all every row is kept, not a sample.
"""

import argparse
import functools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dse.kernels.routing import expert_classes, power_law_counts
from dse.validation.deal import SEED

COMBINATION = ["hidden", "inter", "experts", "topk"]
NAMES = {"hidden_size": "hidden", "inter_size": "inter", "num_experts": "experts", "moe_tp_size": "tp"}
NAMES |= {"moe_ep_size": "ep", "num_tokens": "tokens", "moe_dtype": "dtype"}
FRAMEWORK = {
    "moe_torch_flow_cutlass": "trtllm",
    "moe_torch_flow_nongated": "trtllm",
    "sglang_fused_moe_triton": "sglang",
    "vllm_unquantizedfusedmoe_triton_tritonexperts": "vllm",
    "vllm_fp8moe_triton_tritonexperts": "vllm",
    "vllm_fused_moe": "vllm",
    "vllm_fp8moe_flashinfer_cutlass_flashinferexperts": "flashinfer",
}
IMPLEMENTATIONS = {
    ("trtllm", "bf16"): "trtllm_cutlass",
    ("trtllm", "fp8_block"): "trtllm_deepgemm",
    ("sglang", "bf16"): "sglang_triton",
    ("sglang", "fp8_block"): "sglang_triton_fp8",
    ("vllm", "bf16"): "vllm_triton",
    ("vllm", "fp8_block"): "vllm_triton_fp8",
    ("flashinfer", "fp8_block"): "flashinfer_cutlass_fp8",
}
DEVICE = {
    "a100_sxm": "NVIDIA_A100-SXM4-80GB",
    "h100_sxm": "NVIDIA_H100_80GB_HBM3",
    "h200_sxm": "NVIDIA_H200",
    "b200_sxm": "NVIDIA_B200",
}
SGLANG_CONFIGS = "sglang/srt/layers/moe/fused_moe_triton/configs"
SGLANG_VERSIONS = ("triton_3_5_1", "triton_3_4_0", "triton_3_3_1", "triton_3_2_0", "triton_3_1_0")
VLLM_CONFIGS = "vllm/model_executor/layers/fused_moe/configs"
SCHEDULE = ["tile_m", "tile_n", "tile_k", "group_m", "warps", "stages"]
KEYS = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages")
TRITON = {"num_warps": 4, "num_stages": 3}  # Triton's own, where a config does not say
SLOWEST = 1.5  # of a row over a row of more tokens of the same layer
UNTUNED = 5.0  # times the datasheet's bound, beyond 50 us
SHORTEST_US = 20.0
ROWS = {"fit": 200, "report": 100}  # a GPU and implementation
PEAK = {  # DRAM bytes/s and bf16 FLOP/s of the datasheets
    "a100_sxm": (2.04e12, 312e12),
    "h100_sxm": (3.35e12, 989e12),
    "h200_sxm": (4.8e12, 989e12),
    "b200_sxm": (8e12, 2250e12),
}
COLUMNS = ["system", "implementation", "dtype", *COMBINATION, "tp", "ep", "tokens", "distribution", "gated"]
COLUMNS += ["rank_rows", "rank_tokens", "config", *SCHEDULE, "latency_us", "part"]


def main() -> None:
    """Reads the full table, adds what the columns lack, leaves out what cannot be judged, draws, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--sglang", type=Path, required=True, help="folder of the unpacked sglang package")
    parser.add_argument("--vllm", type=Path, required=True, help="folder of the unpacked vllm package")
    parser.add_argument("--all", action="store_true", help="every row that is kept, not a sample")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "studies/measured/moe.parquet")
    arguments = parser.parse_args()
    table = pd.read_parquet(arguments.table).rename(columns=NAMES)
    table["framework"] = table["kernel_source"].map(FRAMEWORK)
    table["dtype"] = table["dtype"].replace({"bfloat16": "bf16"})
    table = table[table["framework"].notna() & table["dtype"].isin(["bf16", "fp8_block"])].reset_index(drop=True)
    table["implementation"] = list(map(IMPLEMENTATIONS.get, zip(table["framework"], table["dtype"], strict=True)))
    nongated = table["kernel_source"].eq("moe_torch_flow_nongated")
    # the collector that A100's vLLM rows are from made gated weights for every model
    plain = table["framework"].eq("vllm") & table["hidden"].eq(2688) & table["system"].ne("a100_sxm")
    table["gated"] = ~(nongated | plain)
    table["rank_rows"] = rank_rows(table)
    table["rank_tokens"] = [
        local_tokens(row.distribution, row.tokens, row.experts, row.topk, row.ep) if shared else row.tokens
        for row, shared in zip(each_row(table), table["rank_rows"] != "own", strict=True)
    ]
    table = table.join(schedules(table, arguments.sglang, arguments.vllm)).merge(combination_parts(table))
    kept = table[judged(table)]
    if not arguments.all:
        groups = kept.groupby(["system", "implementation", "part"])
        kept = pd.concat(
            [group.sample(min(len(group), ROWS[str(key[-1])]), random_state=SEED) for key, group in groups]
        )
    order = ["system", "implementation", "part", *COMBINATION, "tp", "ep", "distribution", "tokens"]
    whole = dict.fromkeys([*COMBINATION, "tp", "ep", "tokens", "rank_tokens", *SCHEDULE], "int32")
    sample = kept[COLUMNS].sort_values(order, ignore_index=True).astype(whole | {"latency_us": "float32"})
    sample.to_parquet(arguments.out, index=False, compression="zstd")
    print(sample.groupby(["implementation", "system", "part"]).size().unstack().to_string())


def each_row(table: pd.DataFrame) -> Iterator[Any]:
    """The rows, columns as attributes."""
    return iter(table.itertuples())


def combination_parts(table: pd.DataFrame) -> pd.DataFrame:
    """One row a combination with its part: in random order, the first half (rounded up) `fit`, the rest `report`."""
    found = table[COMBINATION].drop_duplicates().sort_values(COMBINATION, ignore_index=True)
    order = np.random.default_rng(SEED).permutation(len(found))
    part = np.empty(len(found), object)
    half = (len(found) + 1) // 2
    part[order[:half]], part[order[half:]] = "fit", "report"
    return found.assign(part=part)


def rank_rows(table: pd.DataFrame) -> np.ndarray:
    """Which rows the timed rank works on: `own`, its experts' rows of all tokens; `local`, SGLang's collector hands it
    only the tokens that have a row there; `clamped`, and rows of experts elsewhere all go to its first expert."""
    shared = (table["framework"] == "sglang") & (table["ep"] > 1)
    sizes = table["hidden"].astype(str) + "x" + table["inter"].astype(str)
    clamped = shared & (table["system"].eq("a100_sxm") | sizes.isin(["1024x2688", "4096x14336"]))
    return np.select([clamped, shared], ["clamped", "local"], "own")


def schedules(table: pd.DataFrame, sglang: Path, vllm: Path) -> pd.DataFrame:
    """Columns `config` (file, default, tuned) and the schedule; zeros where a library's autotuner chose."""
    found = [
        _schedule(row, sglang, vllm) if row.framework in ("sglang", "vllm") else ("tuned", *[0] * len(SCHEDULE))
        for row in each_row(table)
    ]
    return pd.DataFrame(found, columns=["config", *SCHEDULE], index=table.index)


def judged(table: pd.DataFrame) -> pd.Series:
    """Rows that can be judged; see docs/moe.md."""
    series = ["system", "kernel_source", "dtype", *COMBINATION, "tp", "ep", "distribution"]
    ordered = table.sort_values([*series, "tokens"])
    later = ordered.groupby(series)["latency_us"].transform(lambda one: one[::-1].cummin()[::-1].shift(-1))
    slow = table["latency_us"] > SLOWEST * later.reindex(table.index)
    grouped_topk = (table["hidden"] == 7168) & (table["experts"] == 256) & (table["dtype"] == "fp8_block")
    elsewhere = table["framework"].eq("sglang") & table["ep"].gt(1)
    grouped_topk &= table["framework"].isin(["vllm", "flashinfer"]) | elsewhere
    untuned = (table["implementation"] == "trtllm_cutlass") & (table["latency_us"] > UNTUNED * _bound_us(table) + 50.0)
    return ~(slow | grouped_topk | untuned) & (table["latency_us"] > SHORTEST_US)


def _bound_us(table: pd.DataFrame) -> np.ndarray:
    """What the datasheet's rates allow: the products, then the bytes of rows between them."""
    found = []
    for row in each_row(table):
        classes = expert_classes(row.distribution, row.tokens, row.experts, row.topk, row.ep)
        rows, experts = sum(a * b for a, b in classes), sum(b for _, b in classes)
        inter, matrices, (bytes_per_s, flop_per_s) = row.inter // row.tp, 3 if row.gated else 2, PEAK[row.system]
        size, speed = (2, 1) if row.dtype == "bf16" else (1, 2)
        weights_s = matrices * experts * row.hidden * inter * size / bytes_per_s
        product_s = 2 * matrices * rows * row.hidden * inter / (flop_per_s * speed)
        found.append(max(weights_s, product_s) + rows * (4 * row.hidden + 6 * inter) / bytes_per_s)
    return 1e6 * np.array(found)


def _schedule(row: Any, sglang: Path, vllm: Path) -> tuple[Any, ...]:
    experts, inter = row.experts // row.ep, row.inter // row.tp
    blocks = row.dtype == "fp8_block" and inter % 128 == 0
    kind = "bf16" if row.dtype == "bf16" else "blocks" if blocks else "tensor"
    folders = (
        [sglang / SGLANG_CONFIGS / version for version in SGLANG_VERSIONS]
        if row.framework == "sglang"
        else [vllm / VLLM_CONFIGS]
    )
    comma = ", " if row.framework == "sglang" else ","
    name = f"E={experts},N={inter},device_name={DEVICE[row.system]}"
    name += {"bf16": "", "tensor": ",dtype=fp8_w8a8", "blocks": f",dtype=fp8_w8a8,block_shape=[128{comma}128]"}[kind]
    tuned = _tuned(tuple(folders), name)
    if tuned:
        config = tuned[min(tuned, key=lambda size: abs(size - row.rank_tokens))]
    else:
        old = row.framework == "sglang" or row.system == "a100_sxm"  # its vLLM rows are of an older version
        config = (_old_default if old else _new_default)(kind, row.rank_tokens, experts)
    return ("file" if tuned else "default", *((TRITON | config)[key] for key in KEYS))


@functools.cache
def local_tokens(distribution: str, tokens: int, experts: int, topk: int, ep: int) -> int:
    """Tokens that have a row on the busiest rank; a mean over draws, rounded."""
    local = experts // ep
    if distribution == "balanced":
        stride = -(-experts // topk)
        token = np.arange(tokens)[:, None]
        start = token if tokens >= stride else token * stride / tokens
        chosen = np.floor(start + np.arange(topk) * stride).astype(int) % experts
        return int((chosen < local).any(axis=1).sum())
    found = []
    for counts in power_law_counts(tokens, experts, topk, float(distribution.rpartition("_")[2]), ep):
        busiest = counts.reshape(ep, local).sum(axis=1).argmax()
        order = np.argsort(-counts, kind="stable")  # the collector deals experts by size, a column of choices at a time
        chosen = np.repeat(order, counts[order]).reshape(topk, tokens)
        found.append((chosen // local == busiest).any(axis=0).sum())
    return max(round(float(np.mean(found))), 1)


@functools.cache
def _tuned(folders: tuple[Path, ...], name: str) -> dict[int, dict[str, int]] | None:
    for folder in folders:
        path = folder / f"{name}.json"
        if path.is_file():
            return {int(key): config for key, config in json.loads(path.read_text()).items() if key.isdigit()}
    return None


def _old_default(kind: str, tokens: int, experts: int) -> dict[str, int]:
    """SGLang's, and vLLM's until it was changed."""
    if kind == "blocks":
        return dict(zip(KEYS, (64, 128, 128, 32, 4, 3), strict=True))
    if kind == "tensor":
        return dict(zip(KEYS, (64, 128, 128, 1, 4, 4) if tokens <= experts else (128, 256, 128, 32, 8, 4), strict=True))
    return dict(zip(KEYS, (16, 32, 64, 1) if tokens <= experts else (64, 64, 32, 8), strict=False))


def _new_default(kind: str, tokens: int, experts: int) -> dict[str, int]:
    """vLLM 0.24's."""
    if kind == "blocks":
        return dict(zip(KEYS, (16 if tokens <= 64 else 64, 128, 128, 1 if tokens <= 16 else 32, 4, 3), strict=True))
    tile_m = 16 if tokens <= 32 else 32 if tokens <= 96 else 64 if tokens <= 512 else 128
    few = tokens <= 64
    depth = 128 if few or kind == "tensor" else 64
    group = 16 if tokens // experts > 128 else 1
    warps, stages = 4 if tokens <= 128 else 8, 4 if tokens <= 32 else 3
    return dict(zip(KEYS, (tile_m, 64 if few else 128, depth, group, warps, stages), strict=True))


if __name__ == "__main__":
    main()
