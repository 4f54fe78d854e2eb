"""Runs the validation and writes docs/accuracy.md and its figure; no number of the page is typed by hand.

    python scripts/make_accuracy_page.py --part report
    python scripts/make_accuracy_page.py --part report --zero-shot h200_sxm=my/h200_datasheet.toml
    python scripts/make_accuracy_page.py --check

The page says what it was made from: hashes of the model's source, of the GPU files and of the measured tables. --check
compares them with the checkout, without running anything, and exits with 1 where the page is out of date.
"""

import argparse
import hashlib
import json
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import accuracy_schedules as schedules
import accuracy_sections as bf16
import accuracy_studies as studies
from accuracy_text import Validation

from dse.content import load_gpu
from dse.content.files import content_files
from dse.errors import UserError
from dse.platform import configure_jax
from dse.provenance import commit, model_hash, versions
from dse.trust import packaged_residuals
from dse.validation.error_figure import draw_errors
from dse.validation.validate import validate_gemm

ROOT = Path(__file__).resolve().parents[1]
FIGURE = "figures/accuracy.png"  # beside the page
LOW_PRECISION = "gemm_lowprec"
STAMP = "made from: "

# A section is a function `(Validation) -> str`: Markdown with its own heading, or "" where it has nothing to say.
# A further study adds its function here.
SECTIONS: tuple[Callable[[Validation], str], ...] = (
    bf16.answer,
    bf16.by_latency,
    bf16.by_class,
    bf16.against_sources,
    bf16.where_it_fails,
    bf16.deep_k,
    studies.speed_up,
    studies.nvmatmul_heuristics,
    studies.zero_shot,
    studies.low_precision,
    schedules.ranking,
    schedules.curves,
    studies.intervals,
    studies.what_is_not_modelled,
)


def main(words: list[str] | None = None) -> int:
    """Makes the page, or checks it.

    Returns:
        0; 1 where --check finds the page out of date or missing.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="check", help="of the measured tables (default: check)")
    parser.add_argument("--preset", default="library")
    parser.add_argument("--rows", type=int, help="at most that many rows a GPU, for a quick look")
    parser.add_argument(
        "--zero-shot", action="append", default=[], metavar="GPU=FILE", help="a file nothing was fitted for"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "docs/accuracy.md")
    parser.add_argument("--check", action="store_true", help="only say whether the page is out of date")
    arguments = parser.parse_args(words)
    try:
        if arguments.check:
            return _check(arguments.out)
        configure_jax()
        validation = _validate(arguments)
        figure = arguments.out.parent / FIGURE
        figure.parent.mkdir(parents=True, exist_ok=True)
        draw_errors(validation.results, figure)
        command = shlex.join(["python", "scripts/make_accuracy_page.py", *(sys.argv[1:] if words is None else words)])
        arguments.out.write_text(page(validation, sources(validation), command), encoding="utf-8")
    except UserError as error:
        print(f"make_accuracy_page: {error}", file=sys.stderr)
        return 2
    print(f"wrote {arguments.out} and {figure}")
    return 0


def page(validation: Validation, made_from: Mapping[str, str], command: str) -> str:
    """The whole page.

    Args:
        validation: what the sections show.
        made_from: what the page depends on -> hash.
        command: that makes it again.
    """
    blocks = [section(validation) for section in SECTIONS]
    tools = ", ".join(f"{name} {version}" for name, version in versions().items())
    end = (
        f"## How this page was made\n\n```sh\n{command}\n```\n\nCommit {commit() or 'unknown'}; {tools}. Which shapes "
        "are judged, what was fitted and how the rows were measured: [validation.md](validation.md).\n\n"
        f"<!-- {STAMP}{json.dumps(dict(made_from), sort_keys=True)} -->"
    )
    return "\n\n".join(["# Accuracy", *(block for block in blocks if block), end]) + "\n"


def sources(validation: Validation) -> dict[str, str]:
    """What the page depends on -> hash: the model's source, GPU files by name or path, measured tables by name."""
    results = [*validation.results, *validation.low_precision]
    files = {result.gpu_file for result in results}
    tables = ["gemm_bf16", *([LOW_PRECISION] if validation.low_precision else [])]
    return _hashes(sorted(files), tables)


def _hashes(gpus: list[str], tables: list[str]) -> dict[str, str]:
    known = content_files("studies/measured", ".parquet")
    return {
        "model": model_hash(),
        **{f"gpu {name}": load_gpu(name).hash for name in gpus},
        **{
            f"table {name}": hashlib.sha256(known[name].read_bytes()).hexdigest()[:16]
            for name in tables
            if name in known
        },
    }


def _validate(arguments: argparse.Namespace) -> Validation:
    def results(gpus=None, table=None):
        return validate_gemm(gpus, table, arguments.part, arguments.preset, arguments.rows)

    zero_shot = {name: file for name, _, file in (text.partition("=") for text in arguments.zero_shot)}
    for name, file in zero_shot.items():
        if not file:
            raise UserError(
                f"--zero-shot {name} names no file; write {name}=FILE, with a GPU file nothing was fitted for"
            )
    has_low_precision = LOW_PRECISION in content_files("studies/measured", ".parquet")
    return Validation(
        part=arguments.part,
        preset=arguments.preset,
        results=results(),
        figure=FIGURE,
        low_precision=results(table=LOW_PRECISION) if has_low_precision else (),
        zero_shot=results(zero_shot) if zero_shot else (),
        zero_shot_files={name: load_gpu(file) for name, file in zero_shot.items()},
        residuals=packaged_residuals(),
    )


def _check(path: Path) -> int:
    found = re.search(rf"<!-- {STAMP}(.*) -->", path.read_text(encoding="utf-8")) if path.is_file() else None
    if not found:
        print(f"{path} is missing or says nothing of what it was made from: make it again")
        return 1
    then = json.loads(found[1])
    names = {kind: [key.split(" ", 1)[1] for key in then if key.startswith(f"{kind} ")] for kind in ("gpu", "table")}
    now = _hashes(names["gpu"], names["table"])
    changed = [name for name in then if now.get(name) != then[name]]
    print(f"{path}: {'changed since: ' + ', '.join(changed) if changed else 'up to date'}")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
