"""The deal of weight shapes into parts: what numbers are fitted on, what forms are chosen on, what is reported."""

from typing import TYPE_CHECKING

import numpy as np

from ..errors import UserError
from .measured import load_measured_gemm

if TYPE_CHECKING:
    import pandas as pd

SHARES = {"fit": 0.45, "check": 0.25, "report": 0.30}
SEED = 7


def deal_pairs(rows: "pd.DataFrame") -> "pd.DataFrame":
    """One row a pair (n, k) of the table, with its `part`: pairs in random order, cut by `SHARES`, always alike.

    All rows of a pair go into one part, on every GPU: rows of one weight shape are too much alike to fit on some and
    report on the others.

    Args:
        rows: columns n and k.
    """
    pairs = rows[["n", "k"]].drop_duplicates().sort_values(["n", "k"], ignore_index=True)
    order = np.random.default_rng(SEED).permutation(len(pairs))
    ends = np.round(np.cumsum([0.0, *SHARES.values()]) * len(pairs)).astype(int)
    part = np.empty(len(pairs), object)
    for name, start, stop in zip(SHARES, ends[:-1], ends[1:], strict=True):
        part[order[start:stop]] = name
    return pairs.assign(part=part)


def with_sample_parts(rows: "pd.DataFrame") -> "pd.DataFrame":
    """The rows whose pair (n, k) is in the packaged sample, each with the `part` that its pair has there.

    So a larger table can be judged on shapes that no number was fitted on.

    Raises:
        UserError: none of the pairs is in the sample.
    """
    dealt = load_measured_gemm(part=None)[["n", "k", "part"]].drop_duplicates()
    kept = rows.drop(columns="part", errors="ignore").merge(dealt, on=["n", "k"], how="inner")
    if kept.empty:
        raise UserError(
            "no (n, k) of the table is in the packaged sample, so its split says nothing about these rows; "
            "leave --same-split away"
        )
    return kept
