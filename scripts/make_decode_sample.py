"""Makes studies/measured/attention_generation.parquet and mla_generation.parquet: measured decode attention.

    python scripts/make_decode_sample.py ../shared/data/measured

Which rows count and how they are dealt into the parts fit and judge: dse/validation/decode_measured.py.
"""

import argparse
import sys
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dse.validation.decode_measured import SEED, TABLES, read_raw

ROWS = {"gqa": 280, "mla": 220}  # a kernel, GPU and part
WHOLE = ("batch", "heads", "kv_heads", "head_dim", "v_dim", "kv_tokens")


def main() -> None:
    """Reads the full tables, draws the rows, writes the samples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="with aiconfigurator's two tables of decode attention")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "studies/measured")
    arguments = parser.parse_args()
    for table, name in TABLES.items():
        rows = read_raw(table, str(arguments.folder / f"{name}.parquet"))
        groups = rows.groupby(["system", "kernel", "part"])
        sample = pd.concat([group.sample(min(len(group), ROWS[table]), random_state=SEED) for _, group in groups])
        sample = sample.sort_values(["system", "kernel", "part", *WHOLE], ignore_index=True)
        small = sample.astype(dict.fromkeys(WHOLE, "int32") | {"latency_us": "float32"})
        small.to_parquet(arguments.out / f"{name}.parquet", index=False, compression="zstd")
        print(name, len(small), sample.groupby(["system", "kernel", "part"]).size().to_string(), sep="\n")


if __name__ == "__main__":
    main()
