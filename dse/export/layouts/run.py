"""A finished sweep of layouts, exported."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import unknown
from ...text import one_line
from .launch import Launch
from .plain import json_text, layouts_as_dict, yaml_text
from .sglang import launch_sglang
from .trtllm import launch_trtllm
from .vllm import launch_vllm

if TYPE_CHECKING:
    from ...studies.layouts.files import LayoutRun

LAUNCHES: dict[str, Callable[[Launch], str]] = {
    "vllm": launch_vllm,
    "sglang": launch_sglang,
    "trtllm": launch_trtllm,
}
TARGETS = ("yaml", "json", *LAUNCHES)
TABLES = ("best", "front")


@dataclass(frozen=True)
class ExportedLayouts:
    """What was made.

    Attributes:
        text: of the file.
        written: layouts in it.
        refused: what the target cannot express -> how many layouts were passed over for it.
        summary: one line.
    """

    text: str
    written: int
    refused: dict[str, int]
    summary: str


def export_layouts(run: "LayoutRun", target: str, what: str = "best", count: int | None = None) -> ExportedLayouts:
    """The first layouts that the target can express.

    Args:
        run: `dse.studies.layouts.files.open_layouts(folder)`.
        target: one of `TARGETS`.
        what: "best", by tokens a second and GPU, behind them for a framework those of the front; or "front", the
            fastest for a user first.
        count: how many; None: one for a framework, all for yaml and json.

    Raises:
        UserError: an unknown target or table.
    """
    check_words(target, what)
    rows: list[Any] = (run.best if what == "best" else run.front).to_dict("records")
    if target not in LAUNCHES:
        chosen = rows[:count]
        write = json_text if target == "json" else yaml_text
        text = write(layouts_as_dict(run.summary, chosen))
        return ExportedLayouts(text, len(chosen), {}, f"{len(chosen)} of {len(rows)} layouts as {target}")
    if what == "best":
        known = {row["index"] for row in rows}
        by_rate = run.front.sort_values("tokens_per_s_per_gpu", ascending=False, kind="stable")
        rows += [row for row in by_rate.to_dict("records") if row["index"] not in known]

    def put(row: Any) -> tuple[str, list[str]]:
        launch = Launch(run.summary, row)
        engine = str(run.summary["engine"])
        if not engine.startswith(target):
            launch.notes.append(
                f"predicted with engine {engine}; for its own: dse sweep sharding ... --engine {target}"
            )
        text = LAUNCHES[target](launch)
        return "\n".join([*launch.head(), text]), launch.refused

    return launched(run.summary, rows, 1 if count is None else count, put, f"layout(s) as {target}")


def check_words(target: str, what: str) -> None:
    """Whether there are such a target and such a table.

    Raises:
        UserError: there are not.
    """
    if target not in TARGETS:
        raise unknown("target of a sweep of layouts", target, TARGETS)
    if what not in TABLES:
        raise unknown("table", what, TABLES)


def launched(
    facts: Mapping[str, Any],
    rows: Sequence[Any],
    count: int,
    put: Callable[[Any], tuple[str, Sequence[str]]],
    said: str,
) -> ExportedLayouts:
    """The first rows that a framework can express, as command lines under comments.

    Args:
        facts: of the sweep (`dse.studies.layouts.files.service_facts`).
        rows: in the order in which they are wanted.
        count: how many at most.
        put: gives the text of a row, and what of it the framework cannot express.
        said: what is written, in words: "layout(s) as vllm".
    """
    refused: Counter[str] = Counter()
    parts: list[str] = []
    passed = 0
    for row in rows:
        if len(parts) == count:
            break
        text, why = put(row)
        refused.update(why)
        passed += bool(why)
        parts += [] if why else [text]
    summary = f"{len(parts)} {said.replace('(s)', '' if len(parts) == 1 else 's')}"
    reasons = "; ".join(f"{text} ({number})" for text, number in refused.most_common())
    summary += f"; {passed} that it cannot express passed over: {reasons}" if passed else ""
    if not parts:
        fix = "; sweep with --preset plain, and --axis experts_tp=1 for vllm, for layouts that frameworks have"
        summary += fix if rows else "; no layout can run"
    text = "\n\n".join([head_text(facts), *parts]) + "\n" if parts else ""
    return ExportedLayouts(text, len(parts), dict(refused.most_common()), summary)


def head_text(facts: Mapping[str, Any]) -> str:
    """Comment lines above command lines: what was asked."""
    what_if = [f"what if: {change}" for change in facts["changes"]]
    lines = [f"tilesweep, {facts['title']}", *what_if, facts["workload_text"]]
    return "\n".join(f"# {one_line(line)}" for line in lines)
