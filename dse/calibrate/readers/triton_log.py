"""Measured latencies from what autotuning prints: PyTorch Inductor's tables, and Triton's own lines.

Inductor (`max-autotune`) prints a head `AUTOTUNE mm(MxK, KxN)`, since PyTorch 2.5 or so two lines `strides: ...` and
`dtypes: ...`, and a line a choice: name, milliseconds, per cent of the best, and for Triton templates the config.

Triton itself (`TRITON_PRINT_AUTOTUNING=1`) prints which config won, and newer versions the key, but no kernel's time:
"finished after 3.1s" is how long tuning took. Such a log names the schedules of rows that another file has.
"""

import ast
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import UserError
from ...kernels.gemm import GemmProblem
from ...triton_config import config_from, is_triton
from .entry import Content, Entry, Named, ReadOptions, Shape, input_and_output, problem_at, seconds, torch_dtypes
from .triton_cache import named_by
from .triton_key import problem_of_key

INDUCTOR = re.compile(r"AUTOTUNE (?P<kind>\w+)\((?P<shapes>[^)]*)\)")
TRITON = re.compile(
    r"Triton autotuning for function (?P<name>[^\s,]+?),?\s+(?:with key as (?P<key>\(.*?\)),\s+)?"
    r"finished after (?P<after>[\d.]+)s[;,]\s+best config selected: (?P<config>[^;]*);",
    re.S,
)
_CHOICE = re.compile(r"^\s*(?P<name>\w+) (?P<ms>[\d.]+|inf) ms +[\d.]+%(?P<config>.*)$")
_FACTS = re.compile(r"^\s*(strides|dtypes): (.*)$")
_KINDS = ("mm", "addmm", "bmm", "baddbmm")
LIBRARY = ("mm", "addmm", "bias_addmm", "bmm", "baddbmm", "extern_kernels")


def read_triton_log(path: Path, content: bytes, options: ReadOptions) -> Content:
    """Inductor's choices with their times (cuBLAS's without a schedule), and the winners that Triton names.

    Raises:
        UserError: neither kind of line in the file; a Triton line without a key; types, keys or configs that cannot be
            used, with their line.
    """
    text = content.decode("utf-8", errors="replace")
    entries, left_out = _inductor(path, text.splitlines(), options)
    winners = _winners(path, text, options)
    if not entries and not winners:
        reasons = "".join(f"; {count} {reason}" for reason, count in left_out.items())
        raise UserError(
            f"{path} holds no result of autotuning a GEMM{reasons}: give what PyTorch prints under max-autotune (lines "
            "AUTOTUNE mm(...)), or Triton's cache of results (TRITON_CACHE_AUTOTUNING=1)"
        )
    return Content(entries, left_out, winners)


def _inductor(path: Path, lines: list[str], options: ReadOptions) -> tuple[list[Entry], Counter]:
    entries: list[Entry] = []
    left_out: Counter = Counter()
    number = 0
    while number < len(lines):
        head = INDUCTOR.search(lines[number])
        number += 1
        if not head:
            continue
        start, facts, choices = number, {}, []
        while number < len(lines):
            if fact := _FACTS.match(lines[number]):
                facts[fact[1]] = fact[2]
            elif choice := _CHOICE.match(lines[number]):
                choices.append((f"{path}, line {number + 1}", choice))
            else:
                break
            number += 1
        problem = _problem(f"{path}, line {start}", head, facts, options)
        if problem is None:
            left_out[f"choices of {head['kind']} or of a shape that is not fixed"] += len(choices)
            continue
        for where, choice in choices:
            _choice(where, choice, problem, options, entries, left_out)
    return entries, left_out


def _choice(
    where: str, choice: re.Match, problem: GemmProblem, options: ReadOptions, entries: list[Entry], left_out: Counter
) -> None:
    config = dict(
        pair for pair in (part.strip().split("=", 1) for part in choice["config"].split(",")) if len(pair) == 2
    )
    library = choice["name"] in LIBRARY
    if choice["ms"] == "inf":
        left_out["choices that did not run"] += 1
    elif not library and not is_triton(config):
        left_out["choices without a Triton config"] += 1
    else:
        named = None if library else named_by(config_from(config, where), where, problem, options)
        latency_s = seconds(choice["ms"], 1e-3, where, "the time")
        source = "PyTorch Inductor, library" if library else "PyTorch Inductor, Triton"
        entries.append(Entry(where, problem, latency_s, source, named=named))


def _problem(where: str, head: re.Match, facts: Mapping[str, str], options: ReadOptions) -> GemmProblem | None:
    shapes = [shape.strip().split("x") for shape in head["shapes"].split(",")]
    adds = head["kind"] in ("addmm", "baddbmm")
    batched = head["kind"] in ("bmm", "baddbmm")
    operands = slice(1, 3) if adds else slice(0, 2)
    fixed = [len(shape) for shape in shapes[operands] if all(side.isdecimal() for side in shape)]
    if head["kind"] not in _KINDS or fixed != [2 + batched] * 2:
        return None
    a, b = shapes[operands]
    strides = [
        [int(n) for n in re.findall(r"\d+", one)] for one in re.findall(r"\[([^\]]*)\]", facts.get("strides", ""))
    ]
    types = torch_dtypes(re.findall(r"torch\.\w+", facts.get("dtypes", "")), where)
    dtype, out_dtype = input_and_output(types[operands], options.dtype, where)
    layout = "".join(_letter(one) for one in strides[operands]) if len(strides) == len(shapes) else options.layout
    return problem_at(
        where,
        batch=int(a[0]) if batched else 1,
        m=int(a[-2]),
        k=int(a[-1]),
        n=int(b[-1]),
        dtype=dtype,
        out_dtype=out_dtype,
        layout=layout,
        beta=adds and bool(strides) and strides[0][-2:-1] not in ([0], []),  # a bias has one row, read with stride 0
        cache="cold",
    )


def _letter(strides: list[int]) -> str:
    return "t" if strides[-1:] == [1] else "n"


def _winners(path: Path, text: str, options: ReadOptions) -> dict[Shape, Named]:
    found: dict[Shape, Named] = {}
    for match in TRITON.finditer(text):
        where = f"{path}, line {text.count(chr(10), 0, match.start()) + 1}"
        words = (part.strip().partition(": ") for part in match["config"].split(","))
        config = {name: value for name, colon, value in words if colon}
        if not is_triton(config):
            continue
        if not match["key"]:
            raise UserError(
                f"{where}: the line names no key, so the shape is not known: a newer Triton prints it ('with key as'), "
                "and TRITON_CACHE_AUTOTUNING=1 keeps it with the times"
            )
        problem = problem_of_key(_literal(match["key"], where), where, options)
        known = {name: value for name, value in config.items() if value not in ("None", "True", "False")}
        found[problem.m, problem.n, problem.k] = named_by(config_from(known, where), where, problem, options)
    return found


def _literal(text: str, where: str) -> tuple[Any, ...]:
    try:
        return tuple(ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError):
        raise UserError(f"{where}: the key {text} is not readable: a tuple of numbers and types is needed") from None
