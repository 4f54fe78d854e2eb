"""Makes studies/measured/attention_context.parquet: a sample of measured prefill latencies, dealt into parts.

    python scripts/make_attention_sample.py ../shared/data/measured/attention_context.parquet

Which rows are left out, and why: docs/attention.md. The deal into parts is that of the whole table.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dse.validation.attention_rows import TABLE, load_measured_attention

ROWS = 400  # an implementation on a GPU, at most


def main() -> None:
    """Draws the rows and writes them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", help="the public table")
    arguments = parser.parse_args()
    rows = load_measured_attention(arguments.table, part=None)
    groups = rows.groupby(["system", "implementation"], group_keys=False)
    drawn = groups.sample(frac=1.0, random_state=7).groupby(["system", "implementation"], group_keys=False).head(ROWS)
    drawn = drawn.sort_values(list(drawn.columns[:-2])).reset_index(drop=True)
    for name in ("batch", "tokens", "heads", "kv_heads", "head_dim"):
        drawn[name] = drawn[name].astype("int32")
    drawn["latency_us"] = drawn["latency_us"].astype("float32")
    path = Path(__file__).resolve().parents[1] / "studies/measured" / f"{TABLE}.parquet"
    drawn.to_parquet(path, index=False, compression="zstd")
    print(f"{len(drawn)} of {len(rows)} rows, {path.stat().st_size / 1e3:.0f} kB: {path}")


if __name__ == "__main__":
    main()
