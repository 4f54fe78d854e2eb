"""Makes studies/measured/gemm_lowprec.parquet: measured GEMM latencies of narrow types, one source a type.

    python scripts/make_lowprec_sample.py ../shared/data/measured/gemm_lowprec.parquet

Every pair (n, k) has the part that it has in the bf16 sample; a pair that is not there is dealt by the same seeded rule
(`dse.validation.deal`) among its like. Why these sources: studies/measured/README.md.
"""

import argparse
import sys
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dse.validation.deal import SEED, deal_pairs
from dse.validation.measured import load_measured_gemm

SOURCES = {"fp8": "trtllm", "fp8_block": "trtllm", "nvfp4": "vllm"}
ROWS = 600  # a GPU, type and part
COLUMNS = ["system", "dtype", "source", "m", "n", "k", "latency_us", "quantise_a", "part"]


def main() -> None:
    """Reads the full table, takes one source a type, gives every pair its part, draws the rows, writes the sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    out = Path(__file__).parents[1] / "studies/measured/gemm_lowprec.parquet"
    parser.add_argument("--out", type=Path, default=out)
    arguments = parser.parse_args()
    table = pd.read_parquet(arguments.table).rename(columns={"gemm_dtype": "dtype"})
    table = table[table["source"] == table["dtype"].map(SOURCES)].assign(quantise_a=True)
    table = table.merge(_parts(table), on=["n", "k"])
    drawn = [
        group.sample(min(len(group), ROWS), random_state=SEED)
        for _, group in table.groupby(["system", "dtype", "part"])
    ]
    sample = pd.concat(drawn)[COLUMNS].sort_values(["system", "dtype", "part", "n", "k", "m"], ignore_index=True)
    small = sample.astype({"m": "int32", "n": "int32", "k": "int32", "latency_us": "float32"})
    small.to_parquet(arguments.out, index=False, compression="zstd")
    print(sample.groupby(["system", "dtype", "part"]).size().to_string())


def _parts(table: pd.DataFrame) -> pd.DataFrame:
    known = load_measured_gemm(part=None)[["n", "k", "part"]].drop_duplicates()
    pairs = table[["n", "k"]].drop_duplicates().merge(known, on=["n", "k"], how="left")
    others = pairs[pairs["part"].isna()]
    return pd.concat([pairs.dropna(subset="part"), deal_pairs(others)]) if len(others) else pairs


if __name__ == "__main__":
    main()
