"""The sections of docs/accuracy.md that show the bf16 validation: functions from it to Markdown."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from accuracy_text import Validation, estimate_of, markdown_table, metrics_of, percent_text

from dse.cli.validation_text import interval_text
from dse.latency_bucket import BUCKETS
from dse.shape_class import CLASSES, DEEP_K_RATIO
from dse.validation.error_tables import breakdown, errors_of, mean_of_gpus, pooled_bias, source_spread
from dse.validation.latency_errors import DRAWS, LEVEL, Errors
from dse.validation.validate import GpuValidation

DEEP = "deep-K"
WORST_PAIRS = 8
ROWS_OF_A_PAIR_MIN = 5  # a mean over fewer rows says little about the pair
_CELL = "MAPE / roofline's MAPE (bias), per cent."


def answer(of: Validation) -> str:
    """The page's first paragraph, and a line a GPU."""
    means = mean_of_gpus(of.rows)["bf16"]
    model, roofline = means["model"], means["roofline"]
    lines = [{"GPU": result.gpu, **metrics_of(result.errors)} for result in of.results]
    empty = dict.fromkeys(lines[0], "")
    lines.append(empty | {"GPU": "mean of the GPUs", "MAPE": estimate_of(model), "roofline": f"{roofline.value:.1f}"})
    lines.append({"GPU": "all rows", **metrics_of(errors_of(of.rows))})
    return (
        f"bf16 GEMM, the best predicted latency over the preset `{of.preset}` against the measured library kernel, "
        f"{len(of.rows)} rows of the part `{of.part}`: mean absolute error **{model.value:.1f} %**, mean of "
        f"{len(of.results)} GPUs. A roofline with three constants fitted to each GPU reaches {roofline.value:.1f} %: "
        f"the model's error is {percent_text(model.value / roofline.value)} of that.\n\n"
        f"{markdown_table(lines)}\n\n"
        "Per cent of the measured latency; bias below 0: predicted too fast; weighted: sum of absolute errors over sum "
        f"of latencies. In brackets {percent_text(LEVEL)} intervals of a bootstrap ({DRAWS} draws) that resamples "
        "(n, k) pairs: rows of one pair are correlated, so there is less evidence than there are rows.\n\n"
        f"![Predicted over measured latency]({of.figure})"
    )


def by_latency(of: Validation) -> str:
    """Latency buckets by GPU, and the bias over all GPUs."""
    pooled = {one.bucket: one for one in pooled_bias(of.rows)}
    lines = _cells(of.results, "latency", BUCKETS, "microseconds")
    for line in lines:
        one = pooled[line["microseconds"]]
        line |= {"bias over rows": estimate_of(one.by_rows, True), "with equal GPUs": estimate_of(one.by_gpus, True)}
    return f"## By measured latency\n\n{_CELL}\n\n{markdown_table(lines)}"


def by_class(of: Validation) -> str:
    """Shape classes by GPU."""
    lines = _cells(of.results, "class", list(CLASSES), "class")
    classes = "\n".join(f"* **{name}**: {text}." for name, text in CLASSES.items())
    intro = f"{_CELL} A shape is of the first class that applies:\n\n{classes}"
    return f"## By shape class\n\n{intro}\n\n{markdown_table(lines)}"


def against_sources(of: Validation) -> str:
    """The spread between frameworks that timed the same rows: below it nothing can be resolved."""
    found = source_spread(of.rows)
    if not found:
        return ""
    lines = [
        {
            "GPU": one.at["gpu"],
            "rows": str(one.count),
            "of": str(one.all_rows),
            "slowest over fastest, less 1": f"{one.spread:.1f} %",
            "MAPE there": interval_text(one.errors["model"], "mape"),
            "roofline's": f"{one.errors['roofline'].mape:.1f}",
        }
        for one in found
    ]
    return (
        "## Against the spread between sources\n\nRows that several frameworks timed, same library, same GPU. What one "
        f"of them may differ from another by cannot be resolved in the errors.\n\n{markdown_table(lines)}"
    )


def where_it_fails(of: Validation) -> str:
    """The worst cells, the worst weight shapes, and how concentrated the error is."""
    rows = of.rows
    cells = [cell for cell in breakdown(rows, ["gpu", "class", "latency"]) if cell.errors["model"].count >= 10]
    cells.sort(key=lambda cell: -cell.errors["model"].mape)
    worst = [{**cell.at, **metrics_of(cell.errors, short=True)} for cell in cells[:WORST_PAIRS]]
    signed = 100 * (rows["model_us"] / rows["latency_us"] - 1)
    absolute = np.sort(signed.abs().to_numpy())[::-1]
    tenth = absolute[: max(len(absolute) // 10, 1)].sum() / absolute.sum()
    blocks = [f"## Where it fails\n\nThe worst tenth of the rows carries {percent_text(tenth)} of the error."]
    if worst:
        blocks.append(f"The worst cells of GPU, shape class and latency, 10 rows or more:\n\n{markdown_table(worst)}")
    pairs = _worst_pairs(rows.assign(error=signed, absolute=signed.abs()))
    if pairs:
        blocks.append(
            f"The weight shapes with the largest mean error, {ROWS_OF_A_PAIR_MIN} rows or more; a bias as large as the "
            f"MAPE says that all m err the same way:\n\n{markdown_table(pairs)}"
        )
    return "\n\n".join(blocks)


def deep_k(of: Validation) -> str:
    """Deep K by itself: by GPU, and by how deep."""
    rows = of.rows[of.rows["shape_class"] == DEEP]
    if rows.empty:
        return ""
    lines = [{"GPU": cell.at["gpu"], **metrics_of(cell.errors)} for cell in breakdown(rows, ["gpu"])]
    lines.append({"GPU": "all rows", **metrics_of(errors_of(rows))})
    ratio = rows["k"] / rows[["m", "n"]].max(axis=1)
    steps = [DEEP_K_RATIO * factor for factor in (1, 2, 4, 8, np.inf)]
    depths = [
        (f"{low:g} to {high:g}" if np.isfinite(high) else f"{low:g} and more", low, high)
        for low, high in pairwise(steps)
    ]
    deeper = [
        {"k / max(m, n)": name, **metrics_of(errors_of(some))}
        for name, low, high in depths
        if len(some := rows[(ratio >= low) & (ratio < high)])
    ]
    return (
        f"## Deep K\n\n{CLASSES[DEEP][0].upper()}{CLASSES[DEEP][1:]}. Decode and shallow K are not among them.\n\n"
        f"{markdown_table(lines)}\n\n{markdown_table(deeper)}"
    )


def _cells(results: Sequence[GpuValidation], axis: str, values: Sequence[str], head: str) -> list[dict[str, str]]:
    columns = {
        result.gpu: {cell.at[axis]: _cell(cell.errors) for cell in breakdown(result.rows, [axis])} for result in results
    }
    present = [value for value in values if any(value in cells for cells in columns.values())]
    return [{head: value, **{gpu: cells.get(value, "") for gpu, cells in columns.items()}} for value in present]


def _cell(errors: Mapping[str, Errors]) -> str:
    model, roofline = errors["model"], errors["roofline"]
    return f"{model.mape:.1f} / {roofline.mape:.1f} ({model.bias:+.1f})"


def _worst_pairs(rows: pd.DataFrame) -> list[dict[str, str]]:
    pairs = rows.groupby(["system", "n", "k"]).agg(
        rows=("m", "size"), low=("m", "min"), high=("m", "max"), mape=("absolute", "mean"), bias=("error", "mean")
    )
    pairs = pairs[pairs["rows"] >= ROWS_OF_A_PAIR_MIN].nlargest(WORST_PAIRS, "mape").reset_index()
    return [
        {
            "GPU": pair["system"],
            "n x k": f"{pair['n']} x {pair['k']}",
            "m": f"{pair['low']} to {pair['high']}",
            "rows": str(pair["rows"]),
            "MAPE": f"{pair['mape']:.1f}",
            "bias": f"{pair['bias']:+.1f}",
        }
        for pair in pairs.to_dict("records")
    ]
