"""Serving engines as TOML files: what a problem runs, and what is said of a file that is wrong."""

import re
from pathlib import Path

import pytest

from dse.content.engine import NUMBERS, Engine, KernelEntry, list_engines, load_engine
from dse.content.space import load_space
from dse.errors import UserError

OWN = """
title = "Mine"
rule = "nccl"
[sources]
own = "made up"
[numbers]
step_s = { value = 2e-3, kind = "assumed", source = "own" }
graph_tokens_max = { value = 0, kind = "assumed", source = "own" }
memory_share = { value = 0.5, kind = "assumed", source = "own" }
reserved_bytes = { value = 0, kind = "assumed", source = "own" }
activation_tokens = { value = 4096, kind = "assumed", source = "own" }
[[kernel]]
kernel = "attention"
family = "wgmma"
head_dims = [64, 128]
preset = "fa3_d128"
implementation = "fa3"
[[kernel]]
kernel = "attention"
dtypes = ["bf16"]
preset = "quick"
"""


def load(tmp_path: Path, text: str) -> Engine:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    return load_engine(file)


@pytest.mark.parametrize("name", list_engines())
def test_packaged_engines_have_every_number_with_its_source_and_presets_that_there_are(name: str) -> None:
    engine = load_engine(name)
    assert set(engine.values) == set(NUMBERS)
    assert all(datum.source.strip() for datum in engine.values.values())
    assert 0 < engine["memory_share"] <= 1
    for entry in engine.kernels:
        families = [entry.family] if entry.family else ["mma_sync", "wgmma", "tcgen05"]
        for family in families:
            if entry.preset and entry.kernel not in ("rmsnorm", "elementwise", "rope"):  # these have one space
                assert load_space(entry.kernel, family, "bf16", entry.preset).size > 0


def test_an_engine_of_ones_own(tmp_path) -> None:
    engine = load(tmp_path, OWN)
    assert (engine.name, engine.title, engine.rule, engine["step_s"]) == ("mine", "Mine", "nccl", 2e-3)
    assert engine.values["step_s"].source == "made up"
    assert engine["graph_tokens_max"] == 0


def test_title_rule_and_kernels_may_be_left_out(tmp_path) -> None:
    numbers = OWN[OWN.index("[sources]") : OWN.index("[[kernel]]")]
    engine = load(tmp_path, numbers)
    assert (engine.title, engine.rule, engine.kernels) == ("mine", "nccl", ())
    assert engine.entry("gemm", "wgmma", "bf16", None, ("h100_sxm",)) == KernelEntry("gemm")


@pytest.mark.parametrize(
    ("problem", "preset"),
    [
        (("attention", "wgmma", "bf16", 128, ("h100_sxm",)), "fa3_d128"),
        (("attention", "wgmma", "fp16", 64, ("mine", "h200_sxm")), "fa3_d128"),  # one that builds on an H200
        (("attention", "wgmma", "bf16", 256, ("h100_sxm",)), "quick"),  # no entry for the head's size
        (("attention", "tcgen05", "bf16", 128, ("b200",)), "quick"),  # another family
        (("attention", "wgmma", "bf16", 128, ("rtx_4090",)), "quick"),  # no numbers of the GPU
        (("attention", "wgmma", "fp8", 256, ("h100_sxm",)), ""),  # no entry for the type
        (("decode_attention", "wgmma", "bf16", 128, ("h100_sxm",)), ""),
        (("gemm", "wgmma", "bf16", None, ("h100_sxm",)), ""),
    ],
)
def test_the_first_entry_that_suits_a_problem_counts(tmp_path, problem, preset) -> None:
    found = load(tmp_path, OWN).entry(*problem)
    assert (found.kernel, found.preset) == (problem[0], preset)
    assert found.implementation == ("fa3" if preset == "fa3_d128" else "")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('rule = "nccl"', 'rule = "mpi"', "rule: 'mpi' is not allowed: nccl, engine, best"),
        (
            'rule = "nccl"',
            'rules = "nccl"',
            "rules: unknown; known: title, sources, rule, numbers, kernel; did you mean",
        ),
        ('title = "Mine"', "title = 3", "title: must be text, not 3"),
        ('own = "made up"', "own = 3", "sources: must map short names to text"),
        ("step_s = ", "steps_s = ", "numbers.steps_s: unknown; known: step_s, .*did you mean 'step_s'"),
        ("step_s = ", "steps_s = ", r"numbers.step_s: is missing: a number at least 0, at most 10 \(s\)"),
        ("value = 0.5", "value = 1.5", r"memory_share: value is 1.5; allowed: a number above 0, at most 1 \(1\)"),
        ("value = 0.5", "value = true", r"memory_share: value is True; allowed: a number above 0"),
        ("value = 4096", "value = 4096.5", "activation_tokens: value is 4096.5; allowed: a whole number above 0"),
        (
            'value = 2e-3, kind = "assumed"',
            'value = 2e-3, kind = "guess"',
            "step_s: kind is 'guess'; allowed: datasheet",
        ),
        ('0.5, kind = "assumed", source = "own"', '0.5, kind = "assumed"', "memory_share: source is missing"),
        ("[[kernel]]", "[kernel]", "not valid TOML|kernel: must be a list of tables"),
        ("head_dims = [64, 128]", "head_dims = 64", r"kernel\[0\].head_dims: must be a list of whole numbers, not 64"),
        ("head_dims = [64, 128]", "head_dims = [true]", r"head_dims: must be a list of whole numbers, not \[True\]"),
        ('dtypes = ["bf16"]', 'dtypes = "bf16"', r"kernel\[1\].dtypes: must be a list of texts, not 'bf16'"),
        ('dtypes = ["bf16"]', 'dtypes = ["bf61"]', r"kernel\[1\].dtypes: unknown 'bf61'; .*did you mean 'bf16'"),
        ('family = "wgmma"', 'family = "wgmmma"', r"kernel\[0\].family: unknown 'wgmmma'; .*did you mean 'wgmma'"),
        ('kernel = "attention"\nfamily', "family", r"kernel\[0\].kernel: is missing: the kernel's name"),
        (
            'kernel = "attention"\nfamily',
            'kernel = "atention"\nfamily',
            "unknown 'atention'; .*did you mean 'attention'",
        ),
        (
            'kernel = "attention"\nfamily',
            'kernel = "sharding"\nfamily',
            r"kernel\[0\].kernel: unknown 'sharding'",
        ),
        ('preset = "quick"', "preset = 1", r"kernel\[1\].preset: must be text, not 1"),
        ('preset = "quick"', 'presets = "quick"', r"kernel\[1\].presets: unknown; known: kernel, .*mean 'preset'"),
        ('"fa3"', '"fa4"', r"kernel\[0\].implementation: unknown implementation.* 'fa4'; known: .*fa3"),
    ],
)
def test_everything_that_is_wrong_with_a_file_is_said(tmp_path, old: str, new: str, said: str) -> None:
    assert old in OWN
    with pytest.raises(UserError, match=said):
        load(tmp_path, OWN.replace(old, new, 1))


def test_all_problems_are_said_at_once(tmp_path) -> None:
    text = OWN.replace("step_s", "steps", 1).replace('"wgmma"', '"wgma"').replace("[64, 128]", '["64"]')
    text = text.replace('dtypes = ["bf16"]', 'dtypes = ["fp9"]')
    with pytest.raises(UserError) as raised:
        load(tmp_path, text)
    lines = str(raised.value).splitlines()
    assert re.search(r"mine.toml: 4 problems$", lines[0])
    assert [line.strip().partition(":")[0] for line in lines[1:]] == [
        *("numbers.steps", "numbers.step_s", "kernel[0].head_dims", "kernel[1].dtypes")
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("numbers = 3", r"numbers: must be a table, \[numbers\]"),
        ("kernel = [1]", r"kernel\[0\]: must be a table, \[\[kernel\]\], not 1"),
        ("kernel = {}", r"kernel: must be a list of tables, \[\[kernel\]\]"),
        ("sources = 1", "sources: must map short names to text"),
        ("title = ", "is not valid TOML"),
    ],
)
def test_a_file_of_another_form(tmp_path, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        load(tmp_path, text)


def test_an_unknown_name_has_a_suggestion() -> None:
    with pytest.raises(
        UserError, match=r"unknown engine 'vlm'; known: .*vllm.*did you mean 'vllm'\?; or give the path"
    ):
        load_engine("vlm")
