"""Collectives as a command and in Python: against measurements, what-ifs, fabrics as files, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from cli_run import answer, json_answer

from dse.collective_table import collectives
from dse.content.fabric import list_fabrics, load_fabric
from dse.content.fabric_fields import PROTOCOLS
from dse.errors import UserError
from dse.validation.collectives import validate_collectives

MOST = {"a100_sxm": 11.0, "h100_sxm": 7.0, "h200_sxm": 7.0, "b200_sxm": 9.0}  # per cent, sizes that were not fitted


def test_measured_collectives_are_predicted() -> None:
    for result in validate_collectives():
        if result.rule == "nccl":
            assert result.model.mape <= MOST[result.system], result.system
            assert all(found.mape <= 14 for found in result.by_collective.values()), result.system
        else:
            assert result.model.mape <= 8, result.system


def test_the_command_says_what_was_validated(capsys) -> None:
    code, out, _ = answer(capsys, "validate", "collectives")
    assert code == 0
    first, second = out.split("\n\n")
    assert len(first.splitlines()) == 1 + 4 * 5 + 3
    assert len(second.splitlines()) == 1 + 5
    told = json_answer(capsys, "validate", "collectives", "--part", "all")
    assert {at["system"] for at in told["results"]} == set(MOST)
    assert len({at["what"] for at in told["over_nodes"]}) == 5
    _, _, err = answer(capsys, "validate", "collectives", "--part", "half")
    assert "unknown part 'half'" in err


def test_a_table_of_sizes_ranks_and_fabrics(capsys) -> None:
    words = ["collective", "all_reduce", "--bytes", "1MiB:64MiB", "--ranks", "2,8", "--fabric", "nvlink4_x8,nvlink5_x8"]
    told = pd.DataFrame(json_answer(capsys, *words))
    assert len(told) == 2 * 2 * 4
    assert set(told["bytes"]) == {2.0**20, 2.0**22, 2.0**24, 2.0**26}
    largest = told[(told["bytes"] == 2**26) & (told["ranks"] == 8)]
    assert list(largest["algorithm"]) == ["in-switch", "in-switch"]
    bus = 2 * 7 / 8 * largest["bytes"] / largest["latency_s"]
    assert largest["bus_bytes_per_s"].to_numpy() == pytest.approx(bus.to_numpy(), rel=1e-6)
    code, out, _ = answer(capsys, *words)
    assert code == 0
    assert len(out.splitlines()) == 17


def test_faster_links_and_shorter_latencies() -> None:
    sizes = [2.0**12, 2.0**28]
    now = collectives("all_gather", sizes, [8])["latency_s"].to_numpy()
    faster = collectives("all_gather", sizes, [8], overrides={"link": "2x"})["latency_s"].to_numpy()
    sooner = collectives("all_gather", sizes, [8], overrides={"latency": "0.5x"})["latency_s"].to_numpy()
    assert now[0] / faster[0] < 1.05 < 1.6 < now[1] / faster[1]
    assert now[1] / sooner[1] < 1.1 < 1.8 < now[0] / sooner[0]


@pytest.mark.parametrize("name", list_fabrics())
def test_every_number_of_a_fabric_has_a_source(name: str) -> None:
    (level,) = load_fabric(name).levels
    assert level.bind(np.float64).simple.bytes_per_s > 0
    for own in level.values.values():
        for datum in own.values():
            assert datum.source
            assert datum.unit
    for table in set(level.values) - {"level"}:
        assert level[f"{table}.bytes_per_s"] <= level["link_bytes_per_s"], f"{table} moves more than the links"
    assert ("ll128" in level.values) == (
        not name.startswith(("pcie", "roce", "efa"))
    )  # NCCL has it off, or it is not seen
    for table in set(level.values) & set(PROTOCOLS):
        assert level[f"{table}.sms"] > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["all_redce"], "unknown collective 'all_redce'; known: all_gather, all_reduce"),
        (["send", "--ranks", "9"], "ranks = 9 is not allowed: a whole number from 2 to 8 on nvlink4_x8"),
        (["send", "--ranks", "1"], "ranks = 1 is not allowed"),
        (["send", "--bytes", "5x"], "--bytes '5x' is no size: write a number with B, KiB"),
        (["send", "--bytes", "0"], "bytes = 0.0 is not allowed: at least 1"),
        (["send", "--bytes", "1MiB:1KiB"], "a range runs upwards"),
        (["send", "--fabric", "nvlink"], "unknown fabric 'nvlink'"),
        (["send", "--fabric", "nvlink4_x8+"], "'nvlink4_x8+' has a level without a name: write A+B"),
        (["send", "--fabric", "+nvlink4_x8"], "'+nvlink4_x8' has a level without a name"),
        (["send", "--fabric", "nvlink4_x8+nvlink3_x8+nvl72"], "has 3 levels: two are modelled"),
        (["all_reduce", "--fabric", "nvlink4_x8+infiniband_ndr", "--ranks", "12"], "at most 8, or whole nodes of 8"),
        (["send", "--gpus-per-node", "16"], "gpus_per_node = 16 is not allowed: a whole number from 1 to 8, the GPUs"),
        (["send", "--gpus-per-node", "3"], "ranks = 8 is not allowed: a multiple of gpus_per_node = 3"),
        (["send", "--gpus-per-node", "4"], "need a network: nvlink4_x8 is one node; write nvlink4_x8+infiniband_ndr"),
        (["send", "--gpus-per-node", "a"], "--gpus-per-node 'a' is not a whole number"),
        (
            ["send", "--fabric", "nvlink4_x8+infiniband_hdr", "--ranks", "4096", "--gpus-per-node", "1"],
            "4096 nodes are not allowed: nvlink4_x8+infiniband_hdr joins 800",
        ),
        (["send", "--rule", "fast"], "unknown rule 'fast'; known: best, engine, nccl"),
        (["send", "--fabric-set", "lnik=2x"], "unknown number of the fabric nvlink4_x8 'lnik'"),
        (
            ["send", "--fabric-set", "simple.hop_s=-1"],
            "simple.hop_s = '-1'; allowed: a number at least 0, at most 1",
        ),
        (["send", "--ranks", "2,x"], "--ranks 'x' is not a whole number: write numbers of GPUs such as 2,4,8"),
        (["send", "--ranks", ""], "--ranks '' is not a whole number"),
        (["send", "--bytes", "0:1KiB"], "a range runs upwards, from at least 1 byte to at most 2^50"),
        (["send", "--bytes", "1KiB:inf"], "a range runs upwards, from at least 1 byte to at most 2^50"),
        (["send", "--bytes", "nan:1KiB"], "a range runs upwards"),
        (["send", "--fabric-set", "link=5e11"], "link stands for numbers that differ; write a change such as 2x"),
        (["send", "--fabric-set", "link=1e-60x"], "allowed: a number at least 1, at most 1e+18 (bytes a second)"),
        (["send", "--fabric-set", "link=2x", "--fabric-set", "link=3x"], "--fabric-set link is given twice"),
        (["send", "--fabric-set", "\u00b2:link=2x"], "is not a level; nvlink4_x8 has levels 0 to 0"),
        (["send", "--fabric-set", "link"], "write NAME=VALUE, e.g. link=2x"),
        (["send", "--fabric-set", "3:link=2x"], "'3' is not a level; nvlink4_x8 has levels 0 to 0"),
    ],
)
def test_what_is_refused(capsys, words: list[str], said: str) -> None:
    code, out, err = answer(capsys, "collective", *words)
    assert (code, out) == (2, "")
    assert said in err


def test_a_collective_without_its_protocols_is_refused(capsys, tmp_path) -> None:
    mine = str(tmp_path / "mine.toml")
    datum = '{ value = 8, kind = "assumed", source = "s" }'
    level = "\n".join(f"{name} = {datum}" for name in ("ranks_max", "link_bytes_per_s", "copy_bytes_per_s"))
    direct = f"[direct]\nstart_s = {datum}\nhop_s = {datum}\nbytes_per_s = {datum}\n".replace("8,", "1,")
    (tmp_path / "mine.toml").write_text(f"[level]\n{level}\nexchange_ll_max_bytes = {datum}\n{direct}")
    for words, said in (
        (
            ["send", "--fabric", "MINE"],
            "rule nccl needs one of the protocols exchange_ll, exchange",
        ),
        (
            ["all_reduce", "--fabric", "MINE+infiniband_ndr", "--ranks", "16"],
            "both levels, needs one of the protocols ll, ll128, simple, multicast+simple: mine has direct",
        ),
    ):
        code, out, err = answer(capsys, "collective", *(word.replace("MINE", mine) for word in words))
        assert (code, out) == (2, "")
        assert said in err


def test_what_python_refuses() -> None:
    for given, said in (
        ({"fabrics": "nvlink4_x8"}, "fabrics = 'nvlink4_x8' is not allowed: a list"),
        ({"fabrics": []}, "a list of at least one"),
        ({"fabrics": [4]}, "a fabric is the name or the path of a file, not 4"),
        ({"sizes": []}, r"sizes = \[\] is not allowed: a list of at least one number"),
        ({"sizes": 5.0}, "sizes = 5.0 is not allowed: a list"),
        ({"sizes": ["1KiB"]}, "bytes = '1KiB' is not allowed: at least 1, at most 2"),
        ({"sizes": [None]}, "bytes = None is not allowed"),
        ({"sizes": [np.nan]}, "bytes = nan is not allowed"),
        ({"ranks": 8}, "ranks = 8 is not allowed: a list"),
        ({"ranks": [2.5]}, "ranks = 2.5 is not allowed: a whole number from 2 to 8"),
        ({"ranks": [np.nan]}, "ranks = nan is not allowed"),
        ({"ranks": ["8"]}, "ranks = '8' is not allowed"),
        ({"overrides": {"link": 2.0}}, "link stands for numbers that differ"),
        ({"overrides": {"simple.hop_s": None}}, "simple.hop_s = None; allowed"),
    ):
        asked = {"sizes": [1e6], "ranks": [8], "fabrics": ["nvlink4_x8"], **given}
        with pytest.raises(UserError, match=said):
            collectives("all_reduce", **asked)


def test_sizes_go_up_to_the_largest_in_units_of_both_kinds(capsys) -> None:
    rows = json_answer(capsys, "collective", "send", "--bytes", "1TiB,2TB,1PiB")
    assert [row["bytes"] for row in rows] == [2**40, 2e12, 2**50]
    assert "1 PiB" in answer(capsys, "collective", "send", "--bytes", "1PiB")[1]
    assert "at most 2^50" in answer(capsys, "collective", "send", "--bytes", "2PiB")[2]


def test_a_loaded_fabric_is_changed_as_a_named_one_is_and_sizes_are_kept() -> None:
    sizes = np.array([2.0**24 + 1, 2.0**30 + 1])
    named, loaded = (
        collectives("all_gather", sizes, np.array([8]), [one], overrides={"link": "2x"})
        for one in ("nvlink4_x8", load_fabric("nvlink4_x8"))
    )
    assert list(named["latency_s"]) == list(loaded["latency_s"])
    assert list(named["bytes"]) == list(sizes)


def test_measurements_that_cannot_be_are_refused(tmp_path) -> None:
    row = {"system": "h100_sxm", "library": "nccl_2", "collective": "all_reduce", "ranks": 8, "bytes": 64}
    row |= {"latency_us": 9.0}
    for change, said in (
        ({"latency_us": 0.0}, "latency_us = 0 in a row; allowed: a number above 0"),
        ({"latency_us": np.nan}, "latency_us = nan in a row"),
        ({"bytes": "64"}, "bytes is a column of .*; allowed: numbers"),
        ({"system": None}, "system = None in a row; allowed: a text"),
        ({"library": 1}, "library = 1 in a row"),
        ({"ranks": None}, "ranks"),
    ):
        pd.DataFrame([row | change]).to_parquet(tmp_path / "t.parquet")
        with pytest.raises(UserError, match=said):
            validate_collectives(tmp_path / "t.parquet")
    pd.DataFrame([row]).drop(columns="ranks").to_parquet(tmp_path / "t.parquet")
    with pytest.raises(UserError, match="has no column ranks; needed: system"):
        validate_collectives(tmp_path / "t.parquet")
    pd.DataFrame([row]).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(UserError, match="unknown part 'half'; known: all, fit, report"):
        validate_collectives(tmp_path / "t.parquet", "half")
    with pytest.raises(UserError, match="unknown GPU of the table 'h10'; known: h100_sxm"):
        validate_collectives(tmp_path / "t.parquet", fabrics={"h10": "nvlink4_x8"})


def test_a_file_of_ones_own_says_all_its_problems(tmp_path) -> None:
    (tmp_path / "mine.toml").write_text(
        'title = "x"\n[level]\nranks_max = { value = 0.5, kind = "guess", source = "s" }\n[smiple]\n'
    )
    with pytest.raises(UserError) as error:
        load_fabric(tmp_path / "mine.toml")
    text = str(error.value)
    for part in (
        "level.ranks_max: value is 0.5",
        "kind is 'guess'",
        "smiple: is not a table",
        "did you mean 'simple'?",
    ):
        assert part in text
    assert "level.link_bytes_per_s: is missing" in text
    assert "protocols: are missing" in text


def test_bases_that_cannot_be(tmp_path) -> None:
    one, other = tmp_path / "one.toml", tmp_path / "other.toml"
    one.write_text(f"base = '{other}'\n")
    other.write_text(f"base = '{one}'\n")
    with pytest.raises(UserError, match="bases go in a circle: one -> other -> one"):
        load_fabric(one)
    one.write_text("base = 3\ntitle = 5\n")
    with pytest.raises(UserError, match=r"(?s)title: must be a text, not 5.*base: must be a text, not 3"):
        load_fabric(one)
    one.write_text("simple = [1]\n")
    with pytest.raises(UserError, match=r"simple: must be a table of start_s, .*, not \[1\]"):
        load_fabric(one)
    one.write_text('base = "nvlink"\n')
    with pytest.raises(UserError, match=r"unknown fabric 'nvlink'.*in `base` of .*one.toml"):
        load_fabric(one)


def test_fabrics_are_listed_and_shown(capsys) -> None:
    listed = {row["name"]: row for row in json_answer(capsys, "fabrics")}
    assert set(listed) == set(list_fabrics())
    assert (listed["nvlink4_x8"]["sms"]["simple"], listed["nvlink4_x8"]["sms"]["multicast"]) == (24, 16)
    _, out, _ = answer(capsys, "fabrics")
    assert out.splitlines()[0].endswith("SMs")
    _, out, _ = answer(capsys, "fabrics", "nvlink4_x8")
    assert "multicast.bytes_per_s" in out
    assert json_answer(capsys, "fabrics", "nvlink4_x8")["levels"][0]["values"]["level"]["ranks_max"]["value"] == 8


def test_the_links_rate_takes_the_protocols_rates_with_it(tmp_path) -> None:
    plain, twice = load_fabric("nvlink4_x8"), load_fabric("nvlink4_x8", {"link_bytes_per_s": "2x"})
    given = load_fabric("nvlink4_x8", {"level.link_bytes_per_s": 2 * plain.levels[0]["link_bytes_per_s"]})
    own = tmp_path / "mine.toml"
    own.write_text(
        'base = "nvlink4_x8"\n[level]\nlink_bytes_per_s = { value = 900e9, kind = "assumed", source = "a guess" }\n'
        '[simple]\nbytes_per_s = { value = 7e11, kind = "assumed", source = "a guess" }\n'
    )
    mine = load_fabric(own).levels[0]
    for changed in (twice.levels[0], given.levels[0], mine):
        assert changed["link_bytes_per_s"] == 900e9
        for table in ("ll", "ll128", "exchange", "direct", "multicast"):
            old = plain.levels[0].values[table]["bytes_per_s"].number
            assert changed.values[table]["bytes_per_s"].number == pytest.approx(2 * old)
            assert changed.values[table]["hop_s"].number == plain.levels[0].values[table]["hop_s"].number
    assert mine.values["simple"]["bytes_per_s"].number == 7e11  # what a file gives is as it says
    assert "times 2 as its links" in mine.values["direct"]["bytes_per_s"].source
