"""Reports as files: what they say of each kind of run, how the page is built, and that names from files stay text."""

import json
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from cli_run import answer, json_answer
from html_tree import parse
from report_runs import HOSTILE_COMMAND, HOSTILE_SOURCE, HOSTILE_TITLE, hostile_run, interrupted_run, small_run

from dse.content.gpu import load_gpu
from dse.errors import UserError
from dse.front import non_dominated
from dse.front_measures import knees
from dse.report import make_report
from dse.report.blocks import Facts, Figure, Notice, Section, Table, figures_of, number, words
from dse.report.drawing import inline_svg
from dse.report.facts import run_facts
from dse.report.page import page
from dse.report.quantities import quantity_name
from dse.report.sections.machine import machine_numbers
from dse.runs import open_run
from dse.schedule_text import format_schedule, parse_schedule

ALL_OBJECTIVES = ("latency_s", "smem_bytes", "ddr_bytes", "energy_j", "registers_per_thread", "workspace_bytes")
NO_FOLDER = "No such file or directory"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Name -> folder of a finished run."""
    home = tmp_path_factory.mktemp("runs")
    small_run(home / "plain")
    small_run(home / "changed", overrides={"l2_capacity": "2x", "sm_count": "1.5x"}, clock="sustained")
    small_run(home / "none", align_bytes=2)
    interrupted_run(home / "interrupted")
    small_run(home / "six", objectives=ALL_OBJECTIVES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSE_PATH", "")
        hostile_run(home / "content", home / "hostile")
    return home


@pytest.fixture(scope="module")
def plain(runs, tmp_path_factory):
    """The report of the plain run, all of it."""
    folder = tmp_path_factory.mktemp("plain")
    files = {"figures": folder / "figures", "trace_file": folder / "trace.json"}
    return make_report(runs / "plain", folder / "page.html", **files)


@pytest.fixture
def hostile(runs, tmp_path, monkeypatch):
    monkeypatch.setenv("DSE_PATH", str(runs / "content"))
    return make_report(runs / "hostile", tmp_path / "page.html", what_if="none")


def tree(report):
    return parse(report.page.read_text(encoding="utf-8"))


def fewer_objectives(run, names):
    """The run as if it had asked for the front over these alone: its own front holds that one."""
    values = run.front[list(names)].to_numpy(np.float32)
    order = np.lexsort(values.T[::-1])
    front = run.front.iloc[order][non_dominated(values)[order]].reset_index(drop=True)
    summary = {**run.summary, "front_points": len(front), "front_rows": len(front)}
    return replace(run, job=replace(run.job, objectives=names), front=front, summary=summary)


def block(report, anchor, kind):
    section = next(section for section in report.sections if section.anchor == anchor)
    return [at for at in section.blocks if isinstance(at, kind)]


class TestPage:
    def test_a_complete_page(self, plain):
        document = tree(plain)
        html = document.all("html")[0]
        assert html.attributes["lang"] == "en"
        names = {meta.attributes.get("name") for meta in document.all("meta")}
        assert {"viewport", "color-scheme"} <= names
        assert [len(document.all(tag)) for tag in ("h1", "main", "nav", "header", "footer")] == [1] * 5
        assert plain.title == "GEMM 2048 × 2048 × 4096 in bf16 on NVIDIA H200 SXM5 141 GB"
        assert document.all("head")[0].all("title")[0].text == f"{plain.title} - tilesweep report"

    def test_headings_go_down_one_level_at_a_time(self, plain):
        levels = [int(at.tag[1]) for at in tree(plain).walk() if re.fullmatch("h[1-6]", at.tag)]
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))

    def test_ids_are_unique_and_every_reference_has_its_target(self, plain):
        document = tree(plain)
        ids = [at.attributes["id"] for at in document.walk() if "id" in at.attributes]
        assert len(ids) == len(set(ids))
        text = plain.page.read_text()
        referred = [word for at in document.walk() for word in at.attributes.get("aria-labelledby", "").split()]
        referred += [at.attributes["href"][1:] for at in document.walk() if "href" in at.attributes]
        referred += re.findall(r"url\(#([^)]+)\)", text)
        assert set(referred) <= set(ids)
        assert all(at.attributes["href"].startswith("#") for at in document.all("a"))

    def test_every_figure_has_its_message_and_its_data(self, plain):
        document = tree(plain)
        figures = document.all("figure")
        expected = ("top-phases", "top-pipelines", "roofline-candidates", "front-points", "timeline-kernel")
        expected += ("timeline-sm", "what-if-curves", "sensitivity-tornado", "space-reasons", "space-latencies")
        assert tuple(at.attributes["id"] for at in figures) == expected
        for figure in figures:
            (svg,) = figure.all("svg")
            assert svg.attributes["role"] == "img"
            title, desc = svg.children[:2]
            assert (title.tag, desc.tag) == ("title", "desc")
            assert svg.attributes["aria-labelledby"].split() == [title.attributes["id"], desc.attributes["id"]]
            assert len(desc.text) > 60
            assert re.search(r"\d", desc.text)
            assert figure.all("figcaption")[0].text == desc.text
            (details,) = figure.all("details")
            assert len(details.all("tr")) > 1
            assert svg.all("text"), "text is text, not outlines"

    def test_tables_have_captions_and_heads(self, plain):
        tables = tree(plain).all("table")
        assert len(tables) >= 14
        for table in tables:
            assert table.all("caption")[0].text.strip()
            heads = table.all("th")
            assert all(head.attributes["scope"] == "col" and head.text.strip() for head in heads)
            for row in table.all("tbody")[0].all("tr"):
                assert len(row.all("td")) in (len(heads), 1)

    def test_nothing_is_loaded_from_elsewhere(self, plain):
        document, text = tree(plain), plain.page.read_text()
        policy = next(at for at in document.all("meta") if at.attributes.get("http-equiv") == "Content-Security-Policy")
        assert policy.attributes["content"].startswith("default-src 'none';")
        assert not [at.tag for at in document.walk() if at.tag in ("link", "iframe", "object", "embed", "base", "form")]
        assert not [at for at in document.walk() if "src" in at.attributes]
        assert not re.search(r"@import|@font-face|url\((?!#)", text)
        targets = [at.attributes["href"] for at in document.walk() if "href" in at.attributes]
        assert all(target.startswith(("#", "data:image/png;")) for target in targets)
        assert plain.page.stat().st_size < 2e6

    def test_the_same_run_gives_the_same_bytes(self, runs, plain, tmp_path):
        again = make_report(runs / "plain", tmp_path / "p.html", figures=tmp_path / "f", trace_file=tmp_path / "t.json")
        assert again.page.read_bytes() == plain.page.read_bytes()
        assert again.trace.read_bytes() == plain.trace.read_bytes()
        for one, other in zip(again.figures, plain.figures, strict=True):
            assert (one.name, one.read_bytes()) == (other.name, other.read_bytes())


class TestWhatItSays:
    def test_the_best_schedule_and_its_numbers(self, runs, plain):
        best = open_run(runs / "plain").top.iloc[0]
        large = {name: value for name, value, _ in block(plain, "answer", Facts)[0].entries}
        assert large["latency"] == f"{best['latency_s'] * 1e6:.4g}\u00a0µs"
        entries = {name: value for name, value, _ in block(plain, "answer", Facts)[1].entries}
        schedule = parse_schedule(entries["best schedule"], "wgmma")
        assert entries["best schedule"] == format_schedule(schedule)
        assert all(schedule[name] == best[name] for name in schedule)
        (table,) = block(plain, "top", Table)
        assert table.rows[0][1].key == pytest.approx(best["latency_s"])

    def test_bars_add_up(self, plain):
        for figure in block(plain, "top", Figure)[:1]:
            for row in figure.data.rows:
                assert sum(cell.key for cell in row[2:]) == pytest.approx(row[1].key, rel=1e-5)

    def test_reasons_are_the_runs(self, runs, plain):
        summary = open_run(runs / "plain").summary
        figure = block(plain, "space", Figure)[0]
        assert {row[0].text: row[1].key for row in figure.data.rows} == summary["reasons"]
        assert f"{summary['feasible']:,} of {summary['evaluated']:,}" in figure.message

    def test_timeline_is_that_of_the_best(self, runs, plain):
        best = open_run(runs / "plain").top.iloc[0]
        kernel, _ = block(plain, "timeline", Figure)
        assert sum(row[1].key for row in kernel.data.rows) == pytest.approx(best["latency_s"], rel=1e-5)
        content = json.loads(plain.trace.read_text())
        ends = [e["ts"] + e["dur"] for e in content["traceEvents"] if e["ph"] == "X" and e["pid"] == 1]
        assert max(ends) == pytest.approx(best["latency_s"] * 1e6, rel=1e-5)

    def test_what_if_begins_at_the_runs_best(self, runs, plain):
        best_s = open_run(runs / "plain").top["latency_s"].iloc[0]
        (figure,) = block(plain, "what-if", Figure)
        rows = [row for row in figure.data.rows if row[4].text == "1.000" and row[2].key == row[3].key]
        assert len([row for row in rows if row[2].key == pytest.approx(best_s, rel=1e-5)]) >= 4
        assert len(figure.data.rows) == 4 * 5
        assert all(row[2].key <= row[3].key * (1 + 1e-6) for row in figure.data.rows if row[3].key is not None)

    def test_sensitivity_is_sorted_and_tells_the_bound(self, plain):
        (figure,) = block(plain, "sensitivity", Figure)
        assert "Bound now: tensor" in figure.message
        sizes = [max(abs(cell.key) for cell in row[3:6] if cell.key is not None) for row in figure.data.rows]
        assert sizes == sorted(sizes, reverse=True)

    def test_figures_are_written_for_papers(self, plain):
        names = [figure.name for figure in figures_of(plain.sections)]
        assert [path.name for path in plain.figures] == [f"{name}.{end}" for name in names for end in ("png", "svg")]
        for path in plain.figures:
            start = path.read_bytes()[:200]
            assert start.startswith(b"\x89PNG") if path.suffix == ".png" else b"<?xml" in start

    def test_machine_numbers_have_kind_and_source(self, runs):
        found = {at.name: at for at in machine_numbers(run_facts(open_run(runs / "plain")))}
        file = load_gpu("h200_sxm")
        assert found["sm_count"].kind == "datasheet"
        assert found["l2_bytes_per_s"].source.startswith(file.values["l2_bytes_per_s"].source)
        assert found["clock_hz"].text == "1.83\u00a0GHz"
        assert found["l2_capacity_bytes"].text == "52.43\u00a0MB (50\u00a0MiB)"
        assert {at.kind for at in found.values()} <= {"datasheet", "measured", "derived", "assumed", "fitted"}

    def test_changed_numbers_say_so(self, runs, tmp_path):
        found = {at.name: at for at in machine_numbers(run_facts(open_run(runs / "changed")))}
        assert (found["sm_count"].kind, found["sm_count"].source) == ("changed", "sm_count: 132 -> 198 (1.5x)")
        assert found["cluster_sms"].kind == "changed"
        assert found["ddr_bytes_per_s"].kind == "fitted"
        report = make_report(runs / "changed", tmp_path / "c.html", what_if="quick")
        (figure,) = block(report, "what-if", Figure)
        assert {row[0].text for row in figure.data.rows} == {"ddr_bytes_per_s", "tensor_flop_per_clock_sm"}
        assert "Not varied, because the run changes it: l2_capacity_bytes, sm_count." in report.page.read_text()

    def test_without_its_gpu_file_kinds_are_unknown_and_nothing_is_varied(self, runs, tmp_path, monkeypatch):
        monkeypatch.setenv("DSE_PATH", "")
        report = make_report(runs / "hostile", tmp_path / "page.html")
        text = tree(report).text
        assert "There is no GPU file of this name here" in text
        assert "Not computed: there is no GPU file" in text
        assert {at.kind for at in machine_numbers(run_facts(open_run(runs / "hostile")))} == {"unknown", "changed"}


class TestOtherRuns:
    def test_nothing_fits(self, runs, tmp_path):
        report = make_report(runs / "none", tmp_path / "page.html")
        assert [section.anchor for section in report.sections] == ["answer", "space", "machine", "trust", "provenance"]
        assert report.sections[0].title == "Nothing fits"
        assert "No schedule can run. Most often for ALIGNMENT" in tree(report).text
        with pytest.raises(UserError, match="nothing to trace; leave --trace out"):
            make_report(runs / "none", tmp_path / "page.html", trace_file=tmp_path / "t.json")

    def test_an_interrupted_run_says_how_much_was_seen(self, runs, tmp_path):
        run = open_run(runs / "interrupted")
        report = make_report(run, tmp_path / "page.html", what_if="none")
        (notice, *_) = block(report, "answer", Notice)
        seen = run.summary["evaluated"]
        assert notice.text.startswith(f"The sweep was interrupted: {seen:,} of {run.job.space.size:,} schedules")
        assert "the same command goes on" in notice.text
        assert "of the part evaluated" in tree(report).text

    def test_a_run_stopped_before_its_first_chunk(self, runs, tmp_path):
        run = open_run(runs / "interrupted")
        nothing = {"evaluated": 0, "feasible": 0, "reasons": {}, "histogram": [], "front_points": 0}
        run = replace(run, top=run.top.head(0), front=run.front.head(0), summary={**run.summary, **nothing})
        report = make_report(run, tmp_path / "page.html")
        assert report.sections[0].title == "Nothing fits so far"
        (notice,) = block(report, "answer", Notice)
        assert notice.text.startswith("The sweep was interrupted: 0 of ")
        assert not figures_of(report.sections)

    def test_a_run_of_an_older_model_says_so(self, runs, tmp_path):
        report = make_report(replace(open_run(runs / "plain"), stale=True), tmp_path / "page.html", what_if="none")
        assert "The model's code has changed since this run" in block(report, "answer", Notice)[0].text

    @pytest.mark.parametrize("count", [1, 2, 6])
    def test_fronts_over_any_number_of_objectives(self, runs, tmp_path, count):
        run = fewer_objectives(open_run(runs / "six"), ALL_OBJECTIVES[:count])
        report = make_report(run, tmp_path / "page.html", what_if="none")
        (section,) = [section for section in report.sections if section.anchor == "front"]
        figures = figures_of([section])
        if count == 1:
            assert not figures
            assert "One objective: the front is the least latency" in section.blocks[0].text
        else:
            panels = [at for at in figures[0].data.head if at != "knee"][:count]
            assert panels == [quantity_name(name) for name in ALL_OBJECTIVES[:count]]
        parse(report.page.read_text())

    def test_knees_are_marked_in_figure_and_table(self, runs, tmp_path):
        few = fewer_objectives(open_run(runs / "six"), ("latency_s", "smem_bytes"))
        report = make_report(few, tmp_path / "page.html", what_if="none")
        (figure,) = block(report, "front", Figure)
        found = knees(few.front[["latency_s", "smem_bytes"]].to_numpy())
        assert found
        marked = [row for row in figure.data.rows if row[0].text]
        assert [row[0].text for row in marked[:1]] == ["A"]
        assert marked[0][1].key == pytest.approx(few.front["latency_s"].iloc[found[0].place])
        assert "A (latency" in figure.message

    def test_a_front_of_thousands_of_points_stays_small(self, runs, tmp_path):
        run = fewer_objectives(open_run(runs / "six"), ("latency_s", "ddr_bytes"))
        count = 20_000
        steps = np.linspace(0, 1, count)
        front = run.front.iloc[np.zeros(count, int)].reset_index(drop=True)
        front = front.assign(latency_s=1e-4 * (1 + steps), ddr_bytes=1e9 * (2 - steps) ** 2)
        report = make_report(replace(run, front=front), tmp_path / "page.html", what_if="none")
        assert report.page.stat().st_size < 2e6
        assert "data:image/png" in report.page.read_text()
        assert "19,880 more are in front.parquet" in report.page.read_text()


class TestNamesStayText:
    def test_hostile_names_are_shown_and_are_no_markup(self, hostile):
        document = tree(hostile)
        assert HOSTILE_TITLE in document.all("h1")[0].text
        everything = " ".join(at.text for at in document.all("td"))
        assert HOSTILE_SOURCE in everything
        assert HOSTILE_COMMAND in document.text
        assert len(document.all("script")) == 1
        assert not document.all("img")
        assert not document.all("b") + document.all("i")
        for at in document.walk():
            assert not [name for name in at.attributes if name.startswith("on")], at.tag

    def test_every_kind_of_block_is_escaped(self):
        evil = '"><script>alert(1)</script>&'
        table = Table(evil, (evil,), ((words(evil),), (number(1, evil),)), more=evil)
        figure = Figure("f", evil, evil, lambda canvas: canvas.text(0.5, 0.5, evil), table)
        blocks = (Notice(evil), Facts(((evil, evil, evil),)), table, figure)
        document = parse(page(evil, [Section("s", evil, blocks)]))
        assert len(document.all("script")) == 1
        assert document.all("h1")[0].text == document.all("h2")[0].text == evil
        svg = document.all("svg")[0]
        assert [at.text for at in svg.children[:2]] == [evil, evil]
        assert evil in svg.all("text")[0].text

    def test_dollars_are_no_mathematics(self):
        figure = Figure("f", "t", "m", lambda canvas: canvas.text(0.5, 0.5, "a $x_1$ b $"), Table("c", ("h",), ()))
        assert "a $x_1$ b $" in inline_svg(figure)


class TestCommand:
    def test_it_writes_into_the_run_and_says_where(self, runs, capsys):
        code, out, _ = answer(capsys, "report", runs / "none", "--quiet")
        assert code == 0
        page_file = runs / "none" / "report.html"
        assert str(page_file) in out
        assert page_file.exists()

    def test_json(self, runs, tmp_path, capsys):
        found = json_answer(
            capsys, "report", runs / "six", "-o", tmp_path / "p.html", "--figures", tmp_path / "new" / "folder",
            "--trace", tmp_path / "t.json", "--what-if", "none",
        )  # fmt: skip
        assert found["page"] == str(tmp_path / "p.html")
        assert found["bytes"] == (tmp_path / "p.html").stat().st_size
        assert "what-if" not in found["sections"]
        assert len(found["figures"]) == 2 * 9
        assert found["trace"] == str(tmp_path / "t.json")

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["nowhere"], "no run at nowhere: give the folder that dse sweep wrote"),
            (["RUN", "--what-if", "al"], "unknown what-if space 'al'"),
            (["RUN", "-o", "/nowhere/p.html"], f"cannot write /nowhere/p.html: {NO_FOLDER}; choose another with -o"),
            (["RUN", "-o", "OUT", "--figures", "/proc/x"], "cannot make the folder /proc/x"),
            (["RUN", "-o", "OUT", "--trace", "/nowhere/t"], f"cannot write /nowhere/t: {NO_FOLDER}; choose another"),
        ],
    )
    def test_errors_name_the_fix(self, runs, tmp_path, capsys, words, message):
        names = {"RUN": str(runs / "six"), "OUT": str(tmp_path / "p.html")}
        given = [names.get(word, word) for word in words]
        code, _, err = answer(capsys, "report", *given, *([] if "--what-if" in given else ["--what-if", "none"]))
        assert code == 2
        assert message in err


def test_a_bar_of_several_schedules_names_the_stages_of_all():
    from dse.report.sections.top import _stages

    assert _stages([{"stages": 3}, {"stages": 3}]) == "3 stages"
    assert _stages([{"stages": 8}, {"stages": 5.0}, {"stages": 6}]) == "5 to 8 stages"
