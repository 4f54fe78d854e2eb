"""Validations as text: the answer on one screen, every metric of a breakdown, a speed-up."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..text import table

if TYPE_CHECKING:
    from ..validation.error_tables import Cell
    from ..validation.latency_errors import Errors
    from ..validation.speedup import SpeedUp
    from ..validation.validate import GpuValidation

NO_SCHEDULE = "the rows carry no schedule: this judges the best over a space, not the ranking of schedules"


def summary(results: "Sequence[GpuValidation]", part: str, preset: str) -> str:
    """A line a GPU, then cells by latency and by shape class, then what was tried and what to know."""
    from ..validation.error_tables import source_spread
    from ..validation.validate import all_rows

    rows = all_rows(results)
    several = len({result.dtype for result in results}) > 1
    spreads = {(one.at["gpu"], one.at["dtype"]): one for one in source_spread(rows, ("gpu", "dtype"))}
    lines = []
    for result in results:
        spread = spreads.get((result.gpu, result.dtype))
        lines.append(
            {
                "GPU": _label(result, several),
                **_headline(result.errors),
                "spread": f"{spread.spread:.1f}" if spread else "",
                "there": f"{spread.errors['model'].mape:.1f}" if spread else "",
            }
        )
    if len(results) > 1:
        lines += _together(rows, lines[0])
    shown = [column for column in lines[0] if any(line[column] for line in lines)]
    blocks = [
        f"{_what(part, preset)}\n" + table([{name: line[name] for name in shown} for line in lines], left=("GPU",)),
        "by measured latency, us: MAPE/roofline's MAPE, bias" + _by_latency(results, several),
        "by shape class: MAPE/roofline's MAPE, bias" + _by_class(results, several),
        "\n".join(_footer(results, "spread" in shown)),
    ]
    return "\n\n".join(blocks)


def detail(results: "Sequence[GpuValidation]", cut: list[str], part: str, preset: str) -> str:
    """Every metric of every cell of a breakdown, with intervals, and the roofline's MAPE and bias."""
    from ..validation.error_tables import breakdown
    from ..validation.validate import all_rows

    lines = [
        {**{axis: cell.at[axis] for axis in cut}, **_headline(cell.errors), **_more(cell)}
        for cell in breakdown(all_rows(results), cut)
    ]
    shown = [column for column in lines[0] if any(line[column] for line in lines)]
    return f"{_what(part, preset)}\n" + table([{name: line[name] for name in shown} for line in lines], left=cut)


def speedup(found: "SpeedUp", part: str, preset: str) -> str:
    """The speed-up's answer first, then each method's errors."""
    low, high = found.measured_range
    lines = [
        {
            "predicted by": {"constant": "the median for every shape", "model": "tilesweep"}.get(method, method),
            "mean abs error": interval_text(errors, "mape"),
            "bias": interval_text(errors, "bias", signed=True),
            "p90": f"{errors.p90:.1f}",
            "Spearman": f"{found.spearman[method]:.2f}" if method in found.spearman else "",
        }
        for method, errors in found.errors.items()
    ]
    model = found.errors["model"]
    return (
        f"speed-up {found.base} -> {found.other}, {model.count} shapes of {model.pairs} (n, k) pairs, part `{part}`, "
        f"preset `{preset}`\nmeasured {found.measured_median:.3f} at the median, 90 % within {low:.2f} to {high:.2f}; "
        f"errors in per cent of the measured speed-up\n" + table(lines, left=("predicted by",))
    )


def interval_text(errors: "Errors", metric: str, signed: bool = False) -> str:
    """`6.9 [6.4, 7.5]`; without brackets where there is no interval."""
    return estimate_text(getattr(errors, metric), errors.interval.get(metric), signed)


def estimate_text(value: float, interval: tuple[float, float] | None, signed: bool = False) -> str:
    """`+0.4 [-0.8, +1.6]` or `6.9 [6.4, 7.5]`."""
    form = "+.1f" if signed else ".1f"
    return f"{value:{form}}" + (f" [{interval[0]:{form}}, {interval[1]:{form}}]" if interval else "")


def _what(part: str, preset: str) -> str:
    return (
        f"best predicted latency over the preset `{preset}` against the measured library kernel, part `{part}`\n"
        "errors in per cent of the measured latency, 95 % intervals over (n, k) pairs; bias < 0: predicted too fast"
    )


def _headline(errors: "Mapping[str, Errors]") -> dict[str, str]:
    model = errors["model"]
    return {
        "rows": str(model.count),
        "MAPE": interval_text(model, "mape"),
        "bias": interval_text(model, "bias", signed=True),
        "p50": f"{model.p50:.1f}",
        "p90": f"{model.p90:.1f}",
        "p99": f"{model.p99:.1f}",
        "weighted": f"{model.weighted_mape:.1f}",
        "roofline": f"{errors['roofline'].mape:.1f}",
        "nvMMH": f"{errors['nvmatmul'].mape:.1f}" if "nvmatmul" in errors else "",
    }


def _more(cell: "Cell") -> dict[str, str]:
    roofline = cell.errors["roofline"]
    return {
        "roofline bias": f"{roofline.bias:+.1f}",
        "roofline p90": f"{roofline.p90:.1f}",
        "pairs": str(roofline.pairs),
    }


def _together(rows, like: Mapping[str, str]) -> list[dict[str, str]]:
    from ..validation.error_tables import errors_of, mean_of_gpus

    empty = dict.fromkeys(like, "")
    means = mean_of_gpus(rows)
    lines = [
        empty
        | {
            "GPU": "mean of GPUs" if len(means) == 1 else f"mean, {dtype}",
            "MAPE": estimate_text(found["model"].value, found["model"].interval),
            "roofline": f"{found['roofline'].value:.1f}",
        }
        for dtype, found in means.items()
    ]
    return [*lines, empty | {"GPU": "all rows", **_headline(errors_of(rows))}]


def _by_latency(results: "Sequence[GpuValidation]", several: bool) -> str:
    from ..latency_bucket import BUCKETS
    from ..validation.error_tables import pooled_bias
    from ..validation.validate import all_rows

    rows = _cells(results, several, "latency", BUCKETS, "us")
    if len(results) > 1 and not several:
        pooled = {one.bucket: one for one in pooled_bias(all_rows(results))}
        for row in rows:
            one = pooled[row["us"]]
            row["bias over rows"] = estimate_text(one.by_rows.value, one.by_rows.interval, signed=True)
            row["over GPUs"] = estimate_text(one.by_gpus.value, one.by_gpus.interval, signed=True)
    return "\n" + table(rows, left=("us",))


def _by_class(results: "Sequence[GpuValidation]", several: bool) -> str:
    from ..shape_class import CLASSES
    from ..validation.error_tables import errors_of
    from ..validation.validate import all_rows

    rows = _cells(results, several, "class", list(CLASSES), "class")
    if len(results) > 1:
        everything = all_rows(results)
        for row in rows:
            some = everything[everything["shape_class"] == row["class"]]
            row |= {"all rows": _cell_text(errors_of(some)), "rows": str(len(some))}
    return "\n" + table(rows, left=("class",))


def _cells(
    results: "Sequence[GpuValidation]", several: bool, axis: str, values: Sequence[str], head: str
) -> list[dict[str, str]]:
    from ..validation.error_tables import breakdown

    columns = {
        _label(result, several): {cell.at[axis]: _cell_text(cell.errors) for cell in breakdown(result.rows, [axis])}
        for result in results
    }
    present = [value for value in values if any(value in cells for cells in columns.values())]
    return [{head: value, **{name: cells.get(value, "") for name, cells in columns.items()}} for value in present]


def _cell_text(errors: "Mapping[str, Errors]") -> str:
    return f"{errors['model'].mape:.1f}/{errors['roofline'].mape:.1f} {errors['model'].bias:+.1f}"


def _footer(results: "Sequence[GpuValidation]", spread: bool) -> list[str]:
    lines = []
    if spread:
        lines.append("spread: slowest over fastest source where several timed a row, mean; there: MAPE on those rows")
    tried = ", ".join(dict.fromkeys(f"{result.schedules} of {result.space} {result.dtype}" for result in results))
    lines += [f"schedules tried a shape: {tried}", NO_SCHEDULE]
    tiles = [f"{_label(one, True)} {one.same_tile:.0%}" for one in results if one.same_tile is not None]
    if tiles:
        lines.append(f"nvMMH: nvMatmulHeuristics' own time. Rows where it picks the same CTA tile: {', '.join(tiles)}")
    lines += [f"{one.gpu}: predicted with {one.gpu_file}" for one in results if one.gpu_file != one.gpu]
    lines += [f"{_label(one, True)}: timed by {', '.join(one.sources)}" for one in results if one.sources]
    return [*lines, *dict.fromkeys(note for result in results for note in result.notes)]


def _label(result: "GpuValidation", with_dtype: bool) -> str:
    return f"{result.gpu} {result.dtype}" if with_dtype else result.gpu
