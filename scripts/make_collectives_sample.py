"""Makes studies/measured/collectives.parquet: NCCL's collectives and vLLM's all-reduce kernels inside one node.

    python scripts/make_collectives_sample.py ../shared/data/measured/collectives.parquet

What the columns mean, which rows are left out and why: docs/collectives.md. Every other size is `fit`, the others
are `report`.
"""

import argparse
from pathlib import Path

import pandas as pd

OUT = Path(__file__).resolve().parents[1] / "studies" / "measured" / "collectives.parquet"
KEY = ["system", "library", "collective", "ranks", "bytes"]
OTHER_CONDITIONS = ("nccl_2.23",)  # 8 to 16 % above all later versions
ENGINE_OF = {"a100_sxm": "custom_vllm_0.14.0", "h100_sxm": "custom_vllm_0.19.0", "h200_sxm": "custom_vllm_0.19.0"}
ENGINE_UP_TO = 4 * 2**20  # beyond it calls NCCL
B200_SLOW_16_MIB = ("nccl_2.27.3", "nccl_2.29.2")  # twice the time of the versions between them
B200_EXCHANGE_OTHER_RULE = ("nccl_2.27.5", "nccl_2.28.9")  # no switch of all-to-all's protocol at 16 KiB to a peer


def main() -> None:
    """Reads the whole table, writes the sample."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    table = pd.read_parquet(arguments.table).rename(columns={"op_name": "collective", "num_gpus": "ranks"})
    table["collective"] = table["collective"].replace({"alltoall": "all_to_all"})
    sample = pd.concat([_of_nccl(table), _of_the_engine(table)], ignore_index=True)
    sizes = {size: place for place, size in enumerate(sorted(sample["bytes"].unique()))}
    sample["part"] = ["report" if sizes[size] % 2 else "fit" for size in sample["bytes"]]
    sample.sort_values(KEY, ignore_index=True).to_parquet(arguments.out, index=False)
    print(f"{len(sample)} rows, {dict(sample.groupby(['system', 'part']).size())}")


def _of_nccl(table: pd.DataFrame) -> pd.DataFrame:
    rows = table[table["library"].str.startswith("nccl_") & ~table["library"].isin(OTHER_CONDITIONS)]
    rows = rows.groupby(KEY, as_index=False)["latency_us"].median()  # some were measured twice
    b200 = rows["system"] == "b200_sxm"
    slow = b200 & (rows["bytes"] == 16 * 2**20) & (rows["ranks"] >= 4) & (rows["collective"] != "all_to_all")
    slow &= rows["library"].isin(B200_SLOW_16_MIB)
    other = b200 & (rows["collective"] == "all_to_all") & rows["library"].isin(B200_EXCHANGE_OTHER_RULE)
    return rows[~slow & ~other]


def _of_the_engine(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of a key are a replayed graph and an eager call, told apart by nothing but time: the graph is the smaller.
    B200's engines leave their kernels at sizes of their own: no rows."""
    rows = table[(table["library"] == table["system"].map(ENGINE_OF)) & (table["bytes"] <= ENGINE_UP_TO)]
    rows = rows.groupby(KEY, as_index=False)["latency_us"].min()
    return rows[
        ~((rows["system"] == "a100_sxm") & (rows["ranks"] == 8) & (rows["bytes"] == 4096))
    ]  # 15 us between 6 and 6


if __name__ == "__main__":
    main()
