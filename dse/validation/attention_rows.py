"""Measured prefill latencies: which rows of the public table are kept, and how they are dealt into parts."""

import os
import zlib
from typing import TYPE_CHECKING

from ..content.files import content_files, home_expanded
from ..errors import UserError, unknown
from .measured_table import read_measured_table, require_columns

if TYPE_CHECKING:
    import pandas as pd

TABLE = "attention_context"
NAMES = {  # column of the public table -> here
    "kernel_source": "implementation", "batch_size": "batch", "isl": "tokens", "num_heads": "heads",
    "num_key_value_heads": "kv_heads",
}  # fmt: skip
COMBINATION = ["heads", "kv_heads", "head_dim"]
KEYS = ["system", "implementation", "batch", "tokens", *COMBINATION]
PARTS = ("fit", "report")
IMPLEMENTATIONS: dict[str, tuple[str, ...]] = {
    "a100_sxm": ("flash_attention", "torch_flow", "vllm_flash_attn"),
    "h100_sxm": ("fa3", "vllm_flash_attn_fa3", "torch_flow"),
    "h200_sxm": ("fa3", "vllm_flash_attn_fa3", "torch_flow"),
    "b200_sxm": ("trtllm_mha", "vllm_flashinfer_trtllmprefill", "torch_flow", "vllm_flashinfer"),
}


def load_measured_attention(table: str | os.PathLike[str] | None = None, part: str | None = "report") -> "pd.DataFrame":
    """Measured latencies of causal bf16 prefill, one row a shape, GPU and implementation, with its `part`.

    Args:
        table: Parquet or CSV of the public table's columns (or of the packaged sample's); None: the packaged sample.
        part: "fit", "report", or None: both.

    Raises:
        UserError: no such file or column, an unknown part, no row left.
    """
    if part is not None and part not in PARTS:
        raise unknown("part", part, PARTS)
    path = home_expanded(table) if table is not None else content_files("studies/measured", ".parquet")[TABLE]
    rows = read_measured_table(path, (*KEYS, "latency_us")).rename(columns=NAMES)
    require_columns(path, rows, [*KEYS, "latency_us"])
    usable = kept(with_parts(rows))
    judged = usable if part is None else usable.loc[usable["part"] == part]
    if judged.empty:
        raise UserError(f"{path} has no usable row (part {part})")
    return judged.reset_index(drop=True)


def kept(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Rows of the implementations that have numbers, without those that are known to be of something else: a decode
    kernel under the same name, another code path, a head dim that the kernel serves otherwise. Why each is dropped:
    docs/attention.md."""
    named = [(system, name) for system, names in IMPLEMENTATIONS.items() for name in names]
    pairs = list(zip(rows["system"], rows["implementation"], strict=True))
    rows = rows.loc[[pair in named for pair in pairs]]
    which, tokens, dim = rows["implementation"], rows["tokens"], rows["head_dim"]
    other = dim > 256
    other |= (which == "fa3") & dim.isin([64, 192])
    other |= (which == "vllm_flashinfer") & (tokens < 2)
    other |= (which == "vllm_flash_attn") & ((tokens < 2) | (rows["latency_us"] <= 300.0))
    return rows.loc[~other]


def with_parts(rows: "pd.DataFrame") -> "pd.DataFrame":
    """The rows with their `part`: combinations of heads, KV heads and head dim, of each head dim in the order of a
    hash, in turn to the one and the other. All rows of a combination go into one part, on every GPU. A table that has
    parts keeps them; rows of one shape, GPU and implementation become their median."""
    rows = rows[[*KEYS, "latency_us", *(["part"] if "part" in rows.columns else [])]]
    keys = [name for name in rows.columns if name != "latency_us"]
    medians = rows.groupby(keys)["latency_us"].median().reset_index()
    if "part" in medians.columns:
        return medians
    dealt = medians[COMBINATION].drop_duplicates()
    dealt = dealt.assign(order=[combination_hash(*one) for one in dealt.itertuples(index=False)])
    dealt = dealt.sort_values(["head_dim", "order"])
    place = dealt.groupby("head_dim").cumcount()
    dealt = dealt.assign(part=[PARTS[index % 2] for index in place])
    return medians.merge(dealt.drop(columns="order"), on=COMBINATION)


def combination_hash(heads: int, kv_heads: int, head_dim: int) -> int:
    """A number that orders combinations at random, always alike."""
    return zlib.crc32(f"{heads}/{kv_heads}/{head_dim}".encode())
