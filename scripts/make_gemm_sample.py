"""Makes studies/measured/gemm_bf16.parquet, the compact sample of measured GEMM latencies that `dse validate` reads.

    python scripts/make_gemm_sample.py ../shared/data/measured/gemm_bf16.parquet

The (n, k) pairs are dealt into three parts by `dse.validation.deal`: `fit` (numbers may be fitted on it), `check`
(forms may be chosen on it) and `report` (only for a final statement of accuracy). All rows of a pair are in one part,
on every GPU.
"""

import argparse
import sys
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dse.validation.deal import SEED, deal_pairs

ROWS_PER_GPU_AND_PART = 900


def main() -> None:
    """Reads the full table, deals the pairs, draws the rows, writes the sample beside the other studies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "studies/measured/gemm_bf16.parquet")
    arguments = parser.parse_args()
    table = pd.read_parquet(arguments.table, columns=["system", "m", "n", "k", "latency_us", "spread", "n_sources"])
    table = table.merge(deal_pairs(table), on=["n", "k"])
    drawn = [
        group.sample(min(len(group), ROWS_PER_GPU_AND_PART), random_state=SEED)
        for _, group in table.groupby(["system", "part"])
    ]
    sample = pd.concat(drawn).sort_values(["system", "part", "n", "k", "m"], ignore_index=True)
    small = sample.astype({"m": "int32", "n": "int32", "k": "int32", "latency_us": "float32", "spread": "float32"})
    small.astype({"n_sources": "int8"}).to_parquet(arguments.out, index=False, compression="zstd")
    print(sample.groupby(["system", "part"]).size().to_string())


if __name__ == "__main__":
    main()
