"""Implementations: named numbers of a library's kernel, a table a GPU; what is wrong with a file is said at once."""

from pathlib import Path

import pytest

from dse import UserError, load_gpu, sweep
from dse.content.implementation import list_implementations, load_implementation, read_implementation
from dse.kernels.registry import get_kernel, kernel_names
from dse.question import ask

FOLDER = Path(__file__).parent / "user_folder"
SHAPE = "5000x1000"
FIELDS = '[framework_s]\ntext = "a call"\nunit = "seconds"\ndefault = 0.0\n'


@pytest.fixture(autouse=True)
def user_folder(monkeypatch):
    monkeypatch.setenv("DSE_PATH", str(FOLDER))


def own(tmp_path, monkeypatch, text, fields=FIELDS):
    folder = tmp_path / "hardware/implementations/mine"
    folder.mkdir(parents=True)
    (folder / "_fields.toml").write_text(fields)
    (folder / "lib.toml").write_text(text)
    monkeypatch.setenv("DSE_PATH", str(tmp_path))


def test_numbers_are_those_of_all_then_of_the_gpu():
    assert load_implementation("toy", "none", "h200_sxm") == {"framework_s": 0.0, "slowdown": 1.0}
    assert load_implementation("toy", "acme", "h200_sxm") == {"framework_s": 2e-6, "slowdown": 1.25}
    assert load_implementation("toy", "acme", "a100_sxm") == {"framework_s": 3e-6, "slowdown": 1.5}
    assert list_implementations("toy") == ("none", "acme")
    assert load_implementation("no_such_kernel", "none", "h200_sxm") == {}
    datum = read_implementation("toy", "acme").gpus["h200_sxm"]["framework_s"]
    assert (datum.unit, datum.kind, datum.source) == ("seconds", "fitted", "fitted to nothing")


def test_a_gpu_that_builds_on_another_has_its_numbers():
    assert load_implementation("toy", "acme", ("mine", "a100_sxm"))["framework_s"] == 3e-6


@pytest.mark.parametrize(
    ("name", "gpu", "text"),
    [
        ("acne", "h200_sxm", "unknown implementation of toy 'acne'; known: acme, none; did you mean 'acme'"),
        ("acme", "l40s", r"implementation 'acme' of toy has no numbers for the GPU 'l40s'; it has h200_sxm, a100_sxm"),
    ],
)
def test_what_is_not_there_is_said(name, gpu, text):
    with pytest.raises(UserError, match=text):
        load_implementation("toy", name, gpu)


def test_a_what_if_changes_a_number():
    assert load_implementation("toy", "acme", "h200_sxm", {"framework_s": "2x"})["framework_s"] == 4e-6
    assert load_implementation("toy", "acme", "h200_sxm", {"slowdown": "+20%"})["slowdown"] == pytest.approx(1.5)
    with pytest.raises(UserError, match=r"implementation\.slowdown = 0\.5; allowed: a number at least 1 \(ratio\)"):
        load_implementation("toy", "acme", "h200_sxm", {"slowdown": 0.5})
    with pytest.raises(UserError, match=r"unknown number of an implementation of toy 'slow'.*did you mean 'slowdown'"):
        load_implementation("toy", "acme", "h200_sxm", {"slow": 2})


def test_all_problems_of_a_file_are_said_at_once(tmp_path, monkeypatch):
    text = '[h200_sxm]\nframework_s = { value = -1, kind = "guess" }\nframwork_s = 3\n[a100_sxm]\nframework_s = 1\n'
    own(tmp_path, monkeypatch, text)
    with pytest.raises(UserError) as caught:
        load_implementation("mine", "lib", "h200_sxm")
    said = str(caught.value)
    for part in (
        "h200_sxm.framework_s: value is -1; allowed: a number at least 0 (seconds)",
        "h200_sxm.framework_s: kind is 'guess'; allowed: datasheet",
        "h200_sxm.framework_s: source is missing",
        "h200_sxm.framwork_s: is not a number of an implementation; did you mean 'framework_s'?; known: framework_s",
        "a100_sxm.framework_s: must be a table { value, kind, source }, not 1",
    ):
        assert part in said, said


def test_a_field_that_is_not_declared_whole_is_said(tmp_path, monkeypatch):
    own(tmp_path, monkeypatch, "", '[framework_s]\ntext = "a call"\nunits = "seconds"\n')
    with pytest.raises(UserError) as caught:
        load_implementation("mine", "none", "h200_sxm")
    said = str(caught.value)
    assert "framework_s: 'units' is not a key; did you mean 'unit'?; known: text, unit, default, least, most" in said
    assert "framework_s: unit is missing" in said
    assert "framework_s: default is missing: that of a bare ideal kernel" in said


def test_a_question_resolves_the_numbers_of_its_gpu():
    at = {"kernel": "toy", "axes": ["tile_rows=4", "stages=1", "order=down"]}
    ideal, real, changed = (
        sweep(shape=SHAPE, **at, **more)
        for more in (
            {},
            {"implementation": "acme"},
            {"implementation": "acme", "overrides": {"implementation.framework_s": 0.0}},
        )
    )
    gpu = load_gpu("h200_sxm")
    busy = 2 * 5000 * 1000 * 2 / gpu["ddr_bytes_per_s"]
    launch = gpu["launch_overhead_s"]
    assert ideal.top["latency_s"][0] == pytest.approx(busy + launch, rel=1e-5)
    assert real.top["latency_s"][0] == pytest.approx(1.25 * busy + launch + 2e-6, rel=1e-5)
    assert changed.top["latency_s"][0] == pytest.approx(1.25 * busy + launch, rel=1e-5)
    assert changed.job.gpu_changes == ("implementation.framework_s: 2e-06 -> 0",)
    assert real.job.problem.title == "toy 5000x1000 bf16, implementation acme"


def test_a_problem_that_was_not_asked_has_no_numbers_but_the_ideal_ones():
    problem = get_kernel("toy").problem
    assert problem(8, 8).numbers == {"framework_s": 0.0, "slowdown": 1.0}
    with pytest.raises(UserError, match=r"implementation 'acme' has other numbers on every GPU: take problem\.on"):
        problem(8, 8, implementation="acme").arrays()
    assert problem(8, 8, implementation="acme").on(load_gpu("a100_sxm")).numbers["framework_s"] == 3e-6


def test_a_kernel_without_implementations_has_nothing_to_change():
    with pytest.raises(UserError, match=r"--set implementation\.framework_s: gemm has no implementations"):
        ask("64x64x64", overrides={"implementation.framework_s": 0})


def test_the_packaged_files_are_right(monkeypatch):
    monkeypatch.delenv("DSE_PATH")
    for kernel in kernel_names():
        for name in list_implementations(kernel)[1:]:
            found = read_implementation(kernel, name)
            assert found.text, found.path
            for gpu in found.gpus:
                assert gpu == "all" or load_gpu(gpu)
