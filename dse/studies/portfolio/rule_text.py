"""A decision rule as text, as a Python module and as a C header."""

import json
from collections.abc import Iterator, Sequence

from ...kernels.gemm import GemmProblem
from .decision_tree import Leaf, Split, Tree, leaves
from .dispatch import Dispatch, Rule

ARGUMENTS = ("m", "n", "k", "batch")


def rule_text(tree: Tree, names: Sequence[str], indent: str = "") -> str:
    """The tree as if and else, a line a question and a line a kernel."""
    return "\n".join(indent + line for line in _lines(tree, names))


def python_source(
    about: Sequence[str],
    rule: Rule,
    names: Sequence[str],
    problems: Sequence[GemmProblem],
    dispatch: Sequence[Dispatch],
) -> str:
    """A Python module without imports: KERNELS, DISPATCH, `choose(m, n, k)` and `schedule(m, n, k)`.

    Args:
        about: lines on where it comes from.
        rule: the rule.
        names: of the kernels.
        problems, dispatch: the list, and how the portfolio runs it.
    """
    described = _first_schedules(rule, dispatch, len(names))
    lines = [
        '"""' + _docstring_line(about[0]),
        *map(_docstring_line, about[1:]),
        "",
        "Run-time parameters: raster, swizzle, splits, free SMs.",
        '"""',
        "",
    ]
    lines += ["KERNELS = {  # name -> one of its schedules"]
    lines += [f"    {_quoted(name)}: {_quoted(words)}," for name, words in zip(names, described, strict=True)]
    lines += ["}", "DISPATCH = {  # (m, n, k, batch) of the list -> (kernel, schedule)"]
    for problem, row in zip(problems, dispatch, strict=True):
        key = (problem.m, problem.n, problem.k, problem.batch)
        lines.append(f"    {key}: ({_quoted(names[row.kernel])}, {_quoted(row.schedule)}),")
    lines += ["}", "LEAVES = (  # (kernel, schedule) of every leaf of the rule"]
    for leaf, words in zip(leaves(rule.tree), rule.schedules, strict=True):
        lines.append(f"    ({_quoted(names[leaf.kernel])}, {_quoted(words)}),")
    lines += [")", "", "", "def choose(m, n, k, batch=1):"]
    lines += [
        '    """The kernel for a shape, listed or not, by the rule."""',
        "    return LEAVES[_leaf(m, n, k, batch)][0]",
    ]
    lines += ["", "", "def schedule(m, n, k, batch=1):"]
    lines += ['    """The kernel and its schedule: of a listed shape the table\'s, of another the rule\'s."""']
    lines += ["    return DISPATCH.get((m, n, k, batch)) or LEAVES[_leaf(m, n, k, batch)]"]
    lines += ["", "", "def _leaf(m, n, k, batch):"]
    return "\n".join([*lines, *("    " + line for line in _code(rule.tree, iter(range(len(rule.schedules)))))]) + "\n"


def c_source(about: Sequence[str], rule: Rule, names: Sequence[str]) -> str:
    """A C header: the names of the kernels and a static function that returns the place of one."""
    lines = ["/*", *(f" * {line}".rstrip().replace("*/", "* /").replace("/*", "/ *") for line in about), " */"]
    lines += ["#ifndef TILESWEEP_PORTFOLIO_H", "#define TILESWEEP_PORTFOLIO_H", ""]
    lines += [f"static const char *const portfolio_kernels[{len(names)}] = {{"]
    lines += [f"    {json.dumps(name)}," for name in names]
    lines += ["};", "", "/* the kernel for a shape, a place in portfolio_kernels */"]
    lines += ["static int portfolio_choose(long long m, long long n, long long k, long long batch)", "{"]
    used = {word for split in _splits(rule.tree) for word in split.feature.split(" * ")}
    lines += [f"    (void){name};" for name in ARGUMENTS if name not in used]
    lines += ["    " + line for line in _c_lines(rule.tree)]
    return "\n".join([*lines, "}", "", "#endif"]) + "\n"


def _lines(tree: Tree, names: Sequence[str]) -> Iterator[str]:
    if isinstance(tree, Leaf):
        shapes = f"{len(tree.shapes)} shape{'s' if len(tree.shapes) > 1 else ''}"
        yield f"{names[tree.kernel]}   ({shapes})"
        return
    yield f"if {tree.feature} <= {tree.threshold}:"
    yield from ("    " + line for line in _lines(tree.low, names))
    yield "else:"
    yield from ("    " + line for line in _lines(tree.high, names))


def _code(tree: Tree, places: Iterator[int]) -> Iterator[str]:
    if isinstance(tree, Leaf):
        yield f"return {next(places)}"
        return
    yield f"if {tree.feature} <= {tree.threshold}:"
    yield from ("    " + line for line in _code(tree.low, places))
    yield from _code(tree.high, places)


def _c_lines(tree: Tree) -> Iterator[str]:
    if isinstance(tree, Leaf):
        yield f"return {tree.kernel};"
        return
    yield f"if ({tree.feature} <= {tree.threshold}LL) {{"
    yield from ("    " + line for line in _c_lines(tree.low))
    yield "}"
    yield from _c_lines(tree.high)


def _splits(tree: Tree) -> Iterator[Split]:
    if isinstance(tree, Split):
        yield tree
        yield from _splits(tree.low)
        yield from _splits(tree.high)


def _first_schedules(rule: Rule, dispatch: Sequence[Dispatch], count: int) -> list[str]:
    found = {row.kernel: row.schedule for row in reversed(dispatch)}
    for leaf, words in zip(leaves(rule.tree), rule.schedules, strict=True):
        found.setdefault(leaf.kernel, words)
    return [found.get(kernel, "") for kernel in range(count)]


def _docstring_line(text: str) -> str:
    return text.replace("\\", "/").replace('"""', "'''")


def _quoted(text: str) -> str:
    return json.dumps(text)
