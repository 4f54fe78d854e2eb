"""Transformers by their published dimensions, as TOML files in `studies/models`: packaged ones by name, your own by
path.

title = "Llama 3 70B"

[sources]
paper = "The Llama 3 Herd of Models, arXiv 2407.21783, table 3"

[model]
source = "paper"
layers = 80
hidden = 8192
vocabulary = 128256
weights = "bf16"

[attention]            # or [mla]: heads, q_rank, kv_rank, nope_dim, rope_dim, v_dim
source = "paper"
heads = 64
kv_heads = 8
head_dim = 128         # where layers differ: window, windowed_layers

[ffn]                  # and, or instead, [moe]: layers, inter, experts, topk, shared_experts
source = "paper"
inter = 28672
"""

import os
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from .files import content_files, find_content
from .model_sizes import DenseFfn as DenseFfn
from .model_sizes import GroupedAttention as GroupedAttention
from .model_sizes import LatentAttention as LatentAttention
from .model_sizes import ModelConfig as ModelConfig
from .model_sizes import MoeFfn as MoeFfn
from .toml import Problems, did_you_mean, read_toml

FOLDER = "studies/models"
LARGEST = 2**24 - 1  # of any size, as of a problem's sides
MAY_BE_ZERO = ("window", "windowed_layers", "shared_experts")

PARTS: dict[str, type[Any]] = {
    "attention": GroupedAttention,
    "mla": LatentAttention,
    "ffn": DenseFfn,
    "moe": MoeFfn,
}
MODEL_SIZES = ("layers", "hidden", "vocabulary")


def list_models() -> dict[str, Path]:
    """Every model that `load_model` finds by name."""
    return content_files(FOLDER)


def load_model(name_or_path: str | os.PathLike[str]) -> ModelConfig:
    """A model by name (`list_models()`) or by the path of a TOML file.

    Raises:
        UserError: no such model, or everything that is wrong with the file.
    """
    path = find_content(
        "model", FOLDER, name_or_path, fix="or give the path of your own .toml file, see docs/models.md"
    )
    raw = read_toml(path)
    problems = Problems(str(path))
    _check_names(raw, ("title", "sources", "model", *PARTS), "", problems)
    sources = _sources(raw.get("sources"), problems)
    about = _table(raw, "model", problems)
    _check_names(about, ("source", "weights", *MODEL_SIZES), "model.", problems)
    sizes = {name: _size(about, name, "model", problems) for name in MODEL_SIZES}
    found = {part: _part(raw, part, sizes["layers"], problems) for part in PARTS if part in raw}
    told = {part: _source(raw, part, sources, problems) for part in ("model", *found)}
    _check_parts(found, sizes["layers"], problems)
    for text, where in ((raw.get("title"), "title"), (about.get("weights"), "model.weights")):
        if not isinstance(text, str) or not text.strip():
            problems.add(where, "is missing: text" if text is None else f"{text!r} is not allowed: text")
    problems.raise_if_any()
    return ModelConfig(
        name=path.stem,
        title=str(raw["title"]),
        **sizes,
        weights=str(about["weights"]),
        attention=found.get("attention") or found["mla"],
        ffn=found.get("ffn"),
        moe=found.get("moe"),
        sources=told,
        path=path,
    )


def _check_names(raw: Mapping[str, Any], known: tuple[str, ...], before: str, problems: Problems) -> None:
    for name in raw:
        if name not in known:
            problems.add(f"{before}{name}", f"unknown; known: {', '.join(known)}{did_you_mean(name, known)}")


def _table(raw: Mapping[str, Any], name: str, problems: Problems) -> dict[str, Any]:
    table = raw.get(name)
    if isinstance(table, dict):
        return table
    problems.add(name, "is missing" if table is None else f"must be a table [{name}], not {table!r}")
    return {}


def _sources(raw: Any, problems: Problems) -> dict[str, str]:
    if isinstance(raw, dict) and raw and all(isinstance(text, str) and text.strip() for text in raw.values()):
        return raw
    problems.add("sources", 'must map short names to text, e.g. config = "config.json of the published weights"')
    return {}


def _source(raw: Mapping[str, Any], part: str, sources: Mapping[str, str], problems: Problems) -> str:
    text = raw[part].get("source") if isinstance(raw.get(part), dict) else None
    if isinstance(text, str) and text.strip():
        return sources.get(text, text)
    problems.add(f"{part}.source", f"is missing: one of {', '.join(sources) or '[sources]'}, or text")
    return ""


def _part(raw: Mapping[str, Any], part: str, layers: int, problems: Problems) -> Any:
    table, kind = _table(raw, part, problems), PARTS[part]
    _check_names(table, ("source", *(field.name for field in fields(kind))), f"{part}.", problems)
    values = {}
    for field in fields(kind):
        default = layers if field.name == "layers" else field.default
        if field.name in table or default is MISSING:
            values[field.name] = _size(table, field.name, part, problems)
        else:
            values[field.name] = default
    return kind(**values)


def _size(table: Mapping[str, Any], name: str, part: str, problems: Problems) -> int:
    value = table.get(name)
    least = 0 if name in MAY_BE_ZERO else 1
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= LARGEST:
        return value
    said = "is missing" if value is None else f"{value!r} is not allowed"
    problems.add(f"{part}.{name}", f"{said}: a whole number from {least} to {LARGEST}")
    return 1


def _check_parts(found: Mapping[str, Any], layers: int, problems: Problems) -> None:
    def sound(*places: str) -> bool:
        """Whether these numbers may be compared: none of them was found wrong, and replaced, before."""
        return not any(line.partition(":")[0] in places for line in problems.lines)

    if ("attention" in found) == ("mla" in found):
        problems.add("attention", "one of [attention] and [mla] is needed, and only one")
    if "ffn" not in found and "moe" not in found:
        problems.add("ffn", "[ffn] or [moe] is needed, or both")
    at, ffn, moe = (found.get(part) for part in ("attention", "ffn", "moe"))
    if at and sound("attention.heads", "attention.kv_heads") and at.heads % at.kv_heads:
        problems.add("attention.kv_heads", f"{at.kv_heads} does not divide the {at.heads} heads")
    if at and sound("attention.windowed_layers", "model.layers") and at.windowed_layers > layers:
        problems.add("attention.windowed_layers", f"{at.windowed_layers} is more than the {layers} layers")
    if at and sound("attention.window", "attention.windowed_layers") and bool(at.window) != bool(at.windowed_layers):
        problems.add("attention.window", "window and windowed_layers belong together: give both or neither")
    fed = sum(part.layers for part in (ffn, moe) if part)
    if fed and sound("model.layers", "ffn.layers", "moe.layers") and fed != layers:
        problems.add("ffn.layers", f"layers of [ffn] and [moe] sum to {fed}, the model has {layers}")
    if moe and sound("moe.topk", "moe.experts") and moe.topk > moe.experts:
        problems.add("moe.topk", f"{moe.topk} is more than the {moe.experts} experts")


def model_table() -> list[dict[str, Any]]:
    """Every model that is known, one row each: name, title and the sizes that people compare."""
    return [_row(load_model(name)) for name in list_models()]


def _row(model: ModelConfig) -> dict[str, Any]:
    at = model.attention
    return {
        "name": model.name,
        "title": model.title,
        "layers": model.layers,
        "hidden": model.hidden,
        "heads": at.heads,
        "kv_heads": at.kv_heads if isinstance(at, GroupedAttention) else None,
        "head_dim": at.head_dim if isinstance(at, GroupedAttention) else at.nope_dim + at.rope_dim,
        "inter": (model.moe or model.ffn).inter,  # pyright: ignore[reportOptionalMemberAccess] (one of them is there)
        "experts": model.moe.experts if model.moe else None,
        "topk": model.moe.topk if model.moe else None,
        "vocabulary": model.vocabulary,
        "matrix_parameters": model.matrix_parameters,
    }
