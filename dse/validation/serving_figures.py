"""Published rates of whole models: `studies/measured/serving.toml`, or a file like it."""

import os
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from ..content.dtypes import DTYPE_BYTES
from ..content.files import content_files, home_expanded
from ..content.toml import Problems, did_you_mean, read_toml
from ..errors import UserError

PHASES = ("decode", "prefill", "mixed")
COMPARABLE = ("yes", "max-throughput", "unsure", "calibration")
RATES = ("output_tokens_per_s", "output_tokens_per_s_per_gpu", "input_tokens_per_s")
UNITS = (*RATES, "tpot_s", "ttft_s")
ROUTINGS = ("uniform", "balanced")
EXCHANGES, OVERLAPS = ("all_gather", "all_to_all"), ("none", "two_batches")
MXFP4 = "mxfp4"  # 4-bit numbers in blocks of 32: what a machine without such a unit multiplies is up to its kernels
_KEYS = ("sources", "figure")
_WORDS = {
    "dtype": (*DTYPE_BYTES, MXFP4),
    "kv_dtype": ("bf16", "fp16", "fp8"),
    "phase": PHASES,
    "unit": UNITS,
    "comparable": COMPARABLE,
    "exchange": EXCHANGES,
    "overlap": OVERLAPS,
    "routing": ROUTINGS,
}
_LEAST = {"experts": 0, "batch": 0, "input_tokens": 0, "output_tokens": 0, "speculative": 0, "vocabulary": 0}


@dataclass(frozen=True)
class ServingFigure:
    """One published figure; keys as `studies/measured/serving.toml` explains them at its top.

    Attributes:
        name: of the row.
        model, gpu: files of them.
        gpus, tp, ep, dp_attention, pp: the instance, and how it shares the model.
        dtype, kv_dtype: of weights and of the cache.
        phase: of `PHASES`.
        batch: sequences in flight on the instance; 0: what fits.
        input_tokens, output_tokens: of a request; 0: unknown.
        value, unit: what was published, of `UNITS`.
        software: engine and version.
        speculative: tokens that are drafted a step.
        comparable: of `COMPARABLE`; "calibration": a number of an engine file is taken from it.
        source: a key of the file's sources, and where.
        acceptance: tokens that a step with drafts yields.
        vocabulary: where it is not the model file's; 0: it is.
        exchange, overlap: of tokens and experts, where the source says it.
        routing: of tokens to experts, "uniform" or "balanced".
        experts: where some of the model's stand twice; 0: they do not.
        fabric: where it is not the usual one of the GPU.
        link: factor on the rate of links inside a node (H800), e.g. "0.444x".
        notes: in words.
    """

    name: str
    model: str
    gpu: str
    gpus: int
    tp: int
    ep: int
    dp_attention: int
    pp: int
    dtype: str
    kv_dtype: str
    phase: str
    batch: int
    input_tokens: int
    output_tokens: int
    value: float
    unit: str
    software: str
    speculative: int
    comparable: str
    source: str
    acceptance: float = 1.0
    vocabulary: int = 0
    exchange: str = "all_gather"
    overlap: str = "none"
    routing: str = "uniform"
    experts: int = 0
    fabric: str = ""
    link: str = ""
    notes: str = ""

    @property
    def source_key(self) -> str:
        """Key of its source."""
        return self.source.split(",")[0].strip()


def read_serving_figures(path_or_none: str | os.PathLike[str] | None = None) -> tuple[ServingFigure, ...]:
    """The rows of a file of published figures.

    Args:
        path_or_none: a TOML file; None: the packaged one.

    Raises:
        UserError: no such file, or everything that is wrong with it.
    """
    given = path_or_none is not None
    path = home_expanded(path_or_none) if given else content_files("studies/measured")["serving"]
    if not Path(path).is_file():
        raise UserError(f"no table at {path}; give a TOML file of figures like studies/measured/serving.toml")
    raw = read_toml(Path(path))
    problems = Problems(str(path))
    for key in raw:
        if key not in _KEYS:
            problems.add(key, f"unknown; known: {', '.join(_KEYS)}{did_you_mean(key, _KEYS)}")
    sources = raw.get("sources", {})
    listed = raw.get("figure", [])
    if not isinstance(sources, dict) or not isinstance(listed, list):
        problems.add("sources, figure", "must be tables: [sources.NAME] and [[figure]]")
        problems.raise_if_any()
    figures = [_figure(row, f"figure[{place}]", sources, problems) for place, row in enumerate(listed)]
    names = [figure.name for figure in figures if figure]
    for name in sorted({name for name in names if names.count(name) > 1}):
        problems.add("figure", f"two rows are called {name!r}")
    problems.raise_if_any()
    if not figures:
        raise UserError(f"{path} has no row: add one as [[figure]]")
    return tuple(figure for figure in figures if figure)


def _figure(row: Any, where: str, sources: dict[str, Any], problems: Problems) -> ServingFigure | None:
    known = {field.name: field for field in fields(ServingFigure)}
    if not isinstance(row, dict):
        problems.add(where, f"must be a table, [[figure]], not {row!r}")
        return None
    where = f"{where} {row.get('name', '')}".strip()
    before = len(problems.lines)
    for key in row:
        if key not in known:
            problems.add(f"{where}.{key}", f"unknown; known: {', '.join(known)}{did_you_mean(key, tuple(known))}")
    for key, field in known.items():
        if key not in row:
            if field.default is MISSING:
                problems.add(f"{where}.{key}", "is missing")
            continue
        wrong = _wrong(key, field.type, row[key])
        if wrong:
            problems.add(f"{where}.{key}", wrong)
    if len(problems.lines) > before:
        return None
    figure = ServingFigure(**row)
    if figure.source_key not in sources:
        problems.add(f"{where}.source", f"begins with no key of [sources]: {figure.source!r}")
    if figure.gpus % (figure.tp * figure.pp * figure.dp_attention):
        problems.add(f"{where}.gpus", f"{figure.gpus} is no multiple of tp x dp_attention x pp")
    if figure.speculative and figure.comparable == "yes" and not 1.0 <= figure.acceptance <= figure.speculative + 1:
        problems.add(f"{where}.acceptance", f"{figure.acceptance} is not 1 to {figure.speculative + 1} tokens a step")
    if figure.comparable == "yes" and not (figure.batch and figure.input_tokens and figure.output_tokens):
        problems.add(f"{where}.comparable", 'is "yes", but batch, input_tokens or output_tokens is 0')
    return figure


def _wrong(key: str, kind: Any, value: Any) -> str:
    if kind is int:
        least = _LEAST.get(key, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            return f"{value!r} is not allowed: a whole number from {least}"
    elif kind is float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
            return f"{value!r} is not allowed: a number above 0"
    elif not isinstance(value, str):
        return f"must be text, not {value!r}"
    elif key in _WORDS and value not in _WORDS[key]:
        return f"{value!r} is not allowed: {', '.join(_WORDS[key])}"
    return ""
