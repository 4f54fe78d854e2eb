"""Measured decode attention: which kernels the tables hold, which rows count, and how they are dealt.

Columns of the tables (from aiconfigurator-core, see studies/measured/README.md): a row is one call of one layer's
decode attention, replayed from a CUDA graph. `isl` is always 1 and `step` the tokens in the cache before it, so a call
attends to step + 1 keys. `num_heads` is what one rank has (`tp_size` of the MLA table times it is the model's 64 or
128). Keys and values are read again by every replay, so caches below about 0.8 of the L2 are found there.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..content.files import content_files
from ..errors import UserError, unknown
from .measured_table import require_columns

if TYPE_CHECKING:
    import pandas as pd

PARTS = ("fit", "judge")
SEED = 7
TABLES = {"gqa": "attention_generation", "mla": "mla_generation"}
COMBINATION = {"gqa": ["heads", "kv_heads", "head_dim"], "mla": ["heads", "batch"]}  # dealt whole
COLUMNS = ("system", "kernel", "batch", "heads", "kv_heads", "head_dim", "v_dim", "kv_tokens", "kv_dtype", "latency_us")
HOPPER, BLACKWELL, AMPERE = ("h100_sxm", "h200_sxm"), ("b200_sxm",), ("a100_sxm",)
NAMES = {
    "num_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "batch_size": "batch",
    "kernel_source": "kernel",
    "kv_cache_dtype": "kv_dtype",
}
OUTLIER = 1.25  # a latency so many times above both next longer contexts' is a hiccup of the measurement


@dataclass(frozen=True)
class DecodeFamily:
    """One kernel of a library on some GPUs.

    Attributes:
        kernel: as the tables name it; for MLA a name made of source and cache type.
        systems: GPUs that have rows of it.
        table: key of `TABLES`.
        family, preset: instruction family and sub-space whose best is taken.
        free: numbers of the implementation that are fitted, at most ten.
        native: whether the tensor cores multiply the cache's type; else it is widened.
        heads_a_kv_head_max: rows with more are another kernel, or scatter too much.
        left_out: head dims that another kernel serves.
    """

    kernel: str
    systems: tuple[str, ...]
    table: str
    family: str
    preset: str
    free: tuple[str, ...]
    native: bool = True
    heads_a_kv_head_max: int = 10**6
    left_out: tuple[int, ...] = field(default=(192, 512))


_ALL = ("framework_s", "tile_setup_s", "wide_tile_setup_s", "combine_scale", "read_scale", "cache_share")
_ALL = (*_ALL, "overhead_loss", "helper_q")
_MLA = tuple(name for name in _ALL if name != "tile_setup_s")
FAMILIES = (
    DecodeFamily("fa3", HOPPER, "gqa", "wgmma", "flash_attention_3", (*_ALL, "sequence_s")),
    DecodeFamily(
        "vllm_flash_attn_fa3",
        HOPPER,
        "gqa",
        "wgmma",
        "flash_attention_3",
        (*_ALL, "sequence_s", "long_batch_sequence_s"),
        left_out=(512,),
    ),
    DecodeFamily(
        "vllm_flashinfer_trtllmdecode", BLACKWELL, "gqa", "tcgen05", "trtllm_gen", (*_ALL, "row_s", "sequence_s")
    ),
    DecodeFamily("vllm_flashinfer", BLACKWELL, "gqa", "tcgen05", "trtllm_gen", (*_ALL, "row_s", "sequence_s")),
    DecodeFamily("torch_flow", BLACKWELL, "gqa", "tcgen05", "trtllm_gen", (*_ALL, "row_s", "shared_read_scale")),
    DecodeFamily("trtllm_mha", BLACKWELL, "gqa", "tcgen05", "trtllm_gen", (*_ALL, "row_s"), heads_a_kv_head_max=47),
    DecodeFamily(
        "flash_attention",
        AMPERE,
        "gqa",
        "mma_sync",
        "flash_attention",
        tuple(name for name in (*_ALL, "sequence_s") if name != "wide_tile_setup_s"),
    ),
    DecodeFamily("sglang_mla", HOPPER, "mla", "wgmma", "mla", _MLA),
    DecodeFamily("sglang_mla_fp8", HOPPER, "mla", "wgmma", "mla", (*_MLA, "helper_kv"), native=False),
    DecodeFamily("trtllm_mla", HOPPER, "mla", "wgmma", "mla", _MLA),
    DecodeFamily("trtllm_mla_fp8", HOPPER, "mla", "wgmma", "mla", (*_MLA, "step_s")),
    DecodeFamily("sglang_mla", BLACKWELL, "mla", "tcgen05", "trtllm_mla", (*_MLA, "shared_read_scale")),
    DecodeFamily("sglang_mla_fp8", BLACKWELL, "mla", "tcgen05", "trtllm_mla", (*_MLA, "shared_read_scale")),
    DecodeFamily("trtllm_mla", BLACKWELL, "mla", "tcgen05", "trtllm_mla", (*_MLA, "shared_read_scale")),
    DecodeFamily("trtllm_mla_fp8", BLACKWELL, "mla", "tcgen05", "trtllm_mla", (*_MLA, "shared_read_scale")),
)


def load_decode(table: str = "gqa", part: str | None = "judge", path: str | None = None) -> "pd.DataFrame":
    """Rows of the packaged sample.

    Args:
        table: key of `TABLES`.
        part: rows of that part only; None: all.
        path: a Parquet file with the columns `COLUMNS` and `part` in the sample's place.

    Raises:
        UserError: an unknown table or part, no such file, or a missing column.
    """
    import pandas as pd

    if table not in TABLES:
        raise unknown("table of decode attention", table, TABLES)
    if part is not None and part not in PARTS:
        raise unknown("part", part, PARTS)
    found = path or content_files("studies/measured", ".parquet").get(TABLES[table])
    if found is None:
        raise UserError(f"no packaged table {TABLES[table]}; give one")
    rows = pd.read_parquet(found)
    require_columns(found, rows, (*COLUMNS, "part"))
    return rows if part is None else rows[rows["part"] == part].reset_index(drop=True)


def read_raw(table: str, path: str) -> "pd.DataFrame":
    """A table as aiconfigurator has it -> the rows that count, with the columns `COLUMNS` and their `part`.

    Kept are the rows of `FAMILIES`. Rows of one key are one row, their median (a kernel measured twice differs by 0.8 %
    in the mean). Dropped: what `DecodeFamily` says, and outliers (`OUTLIER`), which more keys cannot explain.
    """
    import pandas as pd

    rows = pd.read_parquet(path).rename(columns=NAMES)
    rows["kv_tokens"] = rows["step"] + 1
    rows["latency_us"] = rows["latency_us"].astype(float)
    if table == "mla":
        cache = np.where(rows["kv_dtype"] == "fp8", "_mla_fp8", "_mla")
        rows["kernel"] = rows["source"].str.split("_").str[0] + cache
        rows = rows.assign(kv_heads=1, head_dim=576, v_dim=512)
    else:
        rows = rows.assign(v_dim=rows["head_dim"], kv_dtype="bf16")
    rows["kv_dtype"] = rows["kv_dtype"].replace({"bfloat16": "bf16"})
    rows = rows.merge(dealt(rows, table), on=COMBINATION[table])
    kept = pd.concat([_of_family(rows, family) for family in FAMILIES if family.table == table])
    key = [name for name in COLUMNS if name != "latency_us"]
    one = kept.groupby([*key, "part"])["latency_us"].median().reset_index()
    return one.loc[~_outliers(one), [*COLUMNS, "part"]].reset_index(drop=True)


def dealt(rows: "pd.DataFrame", table: str) -> "pd.DataFrame":
    """One row a combination of the table, with its `part`: one half to fit on, the other to judge, always alike."""
    names = COMBINATION[table]
    combinations = rows[names].drop_duplicates().sort_values(names, ignore_index=True)
    order = np.random.default_rng(SEED).permutation(len(combinations))
    part = np.full(len(combinations), "judge", object)
    part[order[: len(order) // 2]] = "fit"
    return combinations.assign(part=part)


def _of_family(rows: "pd.DataFrame", family: DecodeFamily) -> "pd.DataFrame":
    kept = rows[rows["system"].isin(family.systems) & (rows["kernel"] == family.kernel)]
    kept = kept[~kept["head_dim"].isin(family.left_out)]
    return kept[kept["heads"] <= family.heads_a_kv_head_max * kept["kv_heads"]]


def _outliers(rows: "pd.DataFrame") -> np.ndarray:
    context = [name for name in COLUMNS if name not in ("latency_us", "kv_tokens")]
    ordered = rows.sort_values([*context, "kv_tokens"])
    following = ordered.groupby(context)["latency_us"]
    above = (ordered["latency_us"] > OUTLIER * following.shift(-1)) & (
        ordered["latency_us"] > OUTLIER * following.shift(-2)
    )
    return above.reindex(rows.index).to_numpy(bool)
