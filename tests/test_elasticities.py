"""Elasticities: against jax.grad and differences, sum rules, kinks, the envelope theorem, the next bottleneck."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.gemm_draws import FAMILIES, draw_gemms
from oracles.quick_compile import QUICK

from dse.api import ask, make_job
from dse.content.gpu import load_gpu
from dse.errors import UserError
from dse.schedule_text import FIELDS, parse_schedule
from dse.studies.sensitivity.elasticities import KINK, elasticities, elasticities_of, elasticity_columns
from dse.studies.sensitivity.gpu_numbers import POWERS, RATES, STEPS, latencies, moved
from dse.studies.sensitivity.next_bottleneck import NO_FIT, bottleneck_words
from dse.studies.sensitivity.precise_costs import Rows, frozen_latencies, latency_slopes, make_rows, number_names
from jaxmodel.kernels.gemm import cost
from jaxmodel.machine import Gpu
from jaxmodel.types import BOUNDS, GemmSchedule

SHAPE = "4096x4096x4096"
PLAIN = "tile=128x256x64 stages=4 warps=8 cluster=1x1 raster=along_m:4 launch=persistent"
DRIFT = ("drift_skew_steps", "drift_jitter_steps")


def drawn(count: int, seed: int, family: str, stream_k: bool = True, **changes: float) -> Rows:
    """Kernels that fit, of drawn problems, schedules and GPUs."""
    problem, schedule, gpu = draw_gemms(3 * count, seed, family, stream_k=stream_k)
    gpu = dataclasses.replace(gpu, **{name: np.full(3 * count, value) for name, value in changes.items()})
    rows = Rows(problem, {name: getattr(schedule, name) for name in FIELDS}, gpu)
    fits = np.flatnonzero(latency_slopes(rows)["reason"] == 0)
    return rows.take(fits[:count])


@pytest.fixture(scope="module")
def plain():
    asked = ask(SHAPE, gpu="h200_sxm")
    return asked.problem, parse_schedule(PLAIN, asked.family), asked.gpu.bind(float_dtype=np.float64)


def test_elasticities_are_those_of_jax_grad():
    rows = drawn(40, 3, "wgmma", stream_k=False)
    names = number_names(rows.gpu)
    table = elasticity_columns(rows, latency_slopes(rows), bottlenecks=False)

    def log_latencies(numbers, problem, schedule, gpu):
        latency_s = cost(problem, GemmSchedule(**schedule), dataclasses.replace(gpu, **numbers)).latency_s
        return jnp.sum(jnp.log(latency_s))

    with jax.enable_x64(True):
        grad = jax.jit(jax.grad(log_latencies), compiler_options=QUICK)
        numbers = {name: getattr(rows.gpu, name) for name in names}
        gradient = grad(numbers, rows.problem, rows.schedule, rows.gpu)
    for place, name in enumerate(names):
        smooth = table["kind"][:, place] == "smooth"
        expected = (np.asarray(gradient[name]) * getattr(rows.gpu, name))[smooth]
        np.testing.assert_allclose(table["elasticity"][smooth, place], expected, rtol=1e-7, atol=KINK, err_msg=name)


@pytest.mark.parametrize("family", FAMILIES)
def test_elasticities_are_finite_for_thousands_of_drawn_kernels_even_where_they_do_not_fit(family: str):
    problem, schedule, gpu = draw_gemms(4096, 11, family)
    rows = Rows(problem, {name: getattr(schedule, name) for name in FIELDS}, gpu)
    for name in number_names(gpu):
        found = latency_slopes(rows, {name: getattr(gpu, name)})
        assert np.isfinite(found["slope_s"]).all(), name
        assert np.isfinite(found["latency_s"]).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_elasticities_equal_central_finite_differences_wherever_the_model_is_smooth(family: str):
    """Bar of the project: to 1e-3. The differences here are this test's own, with another step."""
    rows = drawn(60, 5, family)
    base = latency_slopes(rows)
    table = elasticity_columns(rows, base, bottlenecks=False)
    names = number_names(rows.gpu)
    smooth = table["kind"] == "smooth"
    assert smooth.sum() > 0.5 * smooth.size
    for place, name in enumerate(names):
        sides = []
        for factor in (1.0 + 1e-5, 1.0 - 1e-5):
            changed = dataclasses.replace(rows.gpu, **{name: getattr(rows.gpu, name) * factor})
            sides.append(latency_slopes(dataclasses.replace(rows, gpu=changed))["latency_s"])
        slope = np.log(sides[0] / sides[1]) / np.log((1 + 1e-5) / (1 - 1e-5))
        twice = np.abs(np.log(sides[0] * sides[1] / base["latency_s"] ** 2)) / 1e-5  # curvature, or a kink near by
        near = smooth[:, place] & (twice < 1e-3)
        error = np.abs(table["elasticity"][:, place] - slope) / np.maximum(1.0, np.abs(slope))
        assert error[near].max(initial=0.0) < 1e-3, name
        assert np.abs(table["elasticity"] - table["difference"])[:, place][smooth[:, place]].max(initial=0) < 1e-3
        assert np.isnan(table["elasticity"][:, place][~smooth[:, place]]).all()


@pytest.mark.parametrize("limit", ["off", "on"])
@pytest.mark.parametrize("family", FAMILIES)
def test_elasticities_of_rates_less_those_of_times_are_minus_one(family: str, limit: str):
    """Every rate times c and every time over c makes the latency 1/c: Euler's theorem. With the power limit on, watts
    are rates too, and the limiter's time constant is a time."""
    rows = drawn(200, 7, family, **({"power_time_s": 0.0} if limit == "off" else {}))
    names = number_names(rows.gpu)
    up, down = RATES + (POWERS if limit == "on" else ()), [n for n in latencies(rows.gpu) if n in names]
    along = {name: getattr(rows.gpu, name) for name in up} | {name: -getattr(rows.gpu, name) for name in down}
    found = latency_slopes(rows, along)
    np.testing.assert_allclose(found["slope_s"] / found["latency_s"], -1.0, rtol=1e-9)


@pytest.mark.parametrize("gpu", ["a100_sxm", "h200_sxm", "b200_sxm"])
@pytest.mark.parametrize("factor", [1.25, 3.0])
def test_a_machine_c_times_as_fast_in_all_takes_a_cth_of_the_time(gpu: str, factor: float):
    asked = ask(SHAPE, gpu=gpu)
    bound = dataclasses.replace(asked.bound, power_time_s=np.float32(0.0))
    scaled = {name: getattr(bound, name) * factor for name in RATES}
    scaled |= {name: getattr(bound, name) / factor for name in latencies(bound)}
    schedule = parse_schedule("tile=128x128x64 stages=3 warps=4", asked.family)
    rows = make_rows([asked.problem] * 2, [schedule] * 2, [bound, dataclasses.replace(bound, **scaled)])
    now, then = latency_slopes(rows)["latency_s"]
    assert then * factor == pytest.approx(now, rel=1e-4)


def test_what_ten_percent_changes_is_what_set_changes(plain):
    """Every number, through the GPU file and its overrides."""
    problem, schedule, gpu = plain
    table = elasticities(problem, schedule, gpu, bottlenecks=False).table.set_index("number")
    now = latency_slopes(make_rows([problem], [schedule], [gpu]))["latency_s"][0]
    compared = 0
    for name in table.index:
        for text, column in (("+10%", "change_plus_10"), ("-10%", "change_minus_10")):
            try:
                changed = load_gpu("h200_sxm", {name: text}).bind(float_dtype=np.float64)
            except UserError:  # out of its range, or contradicting another number
                continue
            if name in STEPS and float(getattr(changed, name)) == float(getattr(gpu, name)):
                continue  # 10 % is less than one: a step is taken instead
            then = frozen_latencies(make_rows([problem], [schedule], [changed]))["latency_s"][0]
            assert table.loc[name, column] == pytest.approx(then / now - 1.0, abs=1e-9), (name, text)
            compared += 1
    assert compared > 70


def test_at_an_optimum_tuning_anew_changes_nothing_in_the_first_order():
    """The envelope theorem, against brute force: the fastest of a space on moved machines."""
    asked = ask("3072x3072x3072", gpu="h200_sxm")
    job = make_job(asked, None, "quick", ["tile_k=64B", "stages=2:4"])
    count = job.space.size
    columns = job.space.rows(list(range(count)))
    plans = [{name: int(columns[name][place]) for name in FIELDS} for place in range(count)]
    rows = make_rows([asked.problem] * count, plans, [asked.bound] * count)

    def tuned_s(name: str, factor: float) -> float:
        names = np.full(len(near), name, object)
        found = latency_slopes(moved(near, names, getattr(near.gpu, name) * factor))
        return found["latency_s"][found["reason"] == 0].min()

    found = latency_slopes(rows)
    latency_s = np.where(found["reason"] == 0, found["latency_s"], np.inf)
    best = int(latency_s.argmin())
    table = elasticities(asked.problem, plans[best], asked.bound, bottlenecks=False).table.set_index("number")
    near = rows.take(np.flatnonzero(latency_s < 1.1 * latency_s[best]))  # the others cannot win within a millionth
    checked = 0
    for name in table.index[table["kind"] == "smooth"]:
        up, down = tuned_s(name, 1 + 1e-6), tuned_s(name, 1 - 1e-6)
        assert np.log(up / down) / 2e-6 == pytest.approx(table.loc[name, "elasticity"], abs=1e-3), name
        checked += abs(table.loc[name, "elasticity"]) > 1e-3
    assert checked > 8
    assert len(near) > 20


def test_a_tie_of_two_rates_is_a_kink_with_both_sides(plain):
    """A port as wide as the SM's share of L1.5: more of either buys nothing, less of either costs."""
    problem, schedule, gpu = plain
    share = gpu.l15_bytes_per_clock_group / gpu.l15_group_sms
    tied = dataclasses.replace(gpu, sm_port_bytes_per_clock=share, l2_bytes_per_s=gpu.l2_bytes_per_s * 4)
    table = elasticities(problem, schedule, tied, bottlenecks=False).table.set_index("number")
    row = table.loc["sm_port_bytes_per_clock"]
    assert row["kind"] == "kink"
    assert math.isnan(row["elasticity"])
    assert row["elasticity_up"] == pytest.approx(0.0, abs=1e-6)
    assert row["elasticity_down"] < -1e-3
    assert table.loc["clock_hz", "kind"] == "smooth"


def test_numbers_that_are_off_and_counts_have_no_derivative(plain):
    table = elasticities(*plain, bottlenecks=False).table.set_index("number")
    assert table.loc["tmem_columns", "kind"] == "zero"
    assert table.loc["quantise_bytes_per_s", ["elasticity", "elasticity_up", "buys_10"]].isna().all()
    for name in ("sm_count", "smem_per_sm_bytes", "ctas_per_sm"):
        assert table.loc[name, "kind"] == "count"
        assert math.isnan(table.loc[name, "elasticity"])
    row = table.loc["sm_count"]
    assert row["elasticity_up"] == pytest.approx(math.log1p(row["change_plus_10"]) / math.log(145 / 132))
    rows = make_rows([plain[0]], [plain[1]], [load_gpu("h200_sxm", {"sm_count": 133}).bind(float_dtype=np.float64)])
    one_more = latency_slopes(rows)["latency_s"][0] / latency_slopes(make_rows(*([v] for v in plain)))["latency_s"][0]
    assert row["change_step"] == pytest.approx(one_more - 1.0, abs=1e-12)


def test_a_stream_k_kernel_with_nothing_to_share_runs_as_a_persistent_one():
    asked = ask("4096x4096x4096", gpu="h200_sxm")
    streaming = parse_schedule("tile=128x128x64 stages=4 warps=8 launch=stream_k", asked.family)
    persistent = {**streaming, "stream_k": 0}
    gpu = load_gpu("h200_sxm", {"sm_count": 128}).bind()  # 1,024 tiles: whole waves
    rows = make_rows([asked.problem] * 2, [streaming, persistent], [gpu] * 2)
    found = frozen_latencies(rows)
    assert found["reason"].tolist() == [0.0, 0.0]
    assert found["latency_s"][0] == found["latency_s"][1]


NUMBERS = ("tensor_flop_per_clock_sm", "l2_bytes_per_s", "ddr_bytes_per_s", "smem_bytes_per_clock_sm", "clock_hz",
           "l2_capacity_bytes", "l2_latency_s", "launch_overhead_s", "sm_count", "smem_per_sm_bytes")  # fmt: skip


@pytest.mark.parametrize("shape", ["8192x8192x512", "512x512x512", "256x8192x8192"])
def test_the_next_bottleneck_is_the_first_that_a_fine_scan_meets(shape: str):
    asked = ask(shape, gpu="h200_sxm")
    schedule = parse_schedule("tile=128x128x64 stages=4 warps=8 launch=persistent", asked.family)
    found = elasticities(asked.problem, schedule, asked.bound)
    table = found.table.set_index("number")
    rows = make_rows([asked.problem], [schedule], [asked.bound])
    logs = np.linspace(0.0, math.log(64.0), 3001)[1:]
    met = 0
    for name in NUMBERS:
        row = table.loc[name]
        for side, sign in (("up", 1.0), ("down", -1.0)):
            values = row["value"] * np.exp(sign * logs)
            names = np.full(len(logs), name, object)
            values = np.round(values) if name in STEPS else values
            low = asked.bound.smem_per_sm_bytes - asked.bound.smem_per_cta_max_bytes + 1
            keep = values >= low if name == "smem_per_sm_bytes" else values >= 1 if name in STEPS else values > 0
            keep &= (values <= asked.bound.ddr_latency_s) | (name != "l2_latency_s")
            scan = frozen_latencies(moved(rows.take(np.zeros(keep.sum(), int)), names[keep], values[keep]))
            state = np.where(scan["reason"] == 0, np.array(BOUNDS)[scan["bound"].astype(int)], NO_FIT)
            differs = np.flatnonzero(state != found.bound)
            factor, binds = row[f"{side}_factor"], row[f"{side}_binds"]
            if not len(differs):
                assert (factor, binds) == (math.inf if sign > 0 else 0.0, ""), name
                continue
            first = values[keep][differs[0]] / row["value"]
            step = 1.0 / row["value"] if name in STEPS else 0.0
            assert factor == pytest.approx(first, rel=2e-3, abs=2 * step), (name, side)
            assert binds == state[differs[0]], (name, side)
            met += 1
    assert met >= 5


@settings(max_examples=30, deadline=None)
@given(st.floats(1.001, 60), st.sampled_from(["ddr", "tmem", "latency"]))
def test_distances_in_words(factor: float, name: str):
    row = {"up_factor": factor, "up_binds": name, "down_factor": 0.0, "down_binds": ""}
    words = bottleneck_words("tensor", row)
    shown = float(words.split()[0].removeprefix("x"))
    assert (1 + shown / 100 if "%" in words else shown) == pytest.approx(factor, rel=0.05)
    assert {"ddr": "DDR binds", "tmem": "TMEM binds", "latency": "latency binds"}[name] in words


def test_no_distance_in_words():
    row = {"up_factor": math.inf, "up_binds": "", "down_factor": 0.0, "down_binds": ""}
    assert bottleneck_words("tensor", row) == "unlimited: the tensor cores bind throughout"
    assert bottleneck_words("tensor", row | {"up_factor": math.nan}) == "off"
    both = {"up_factor": 1.18, "up_binds": "smem", "down_factor": 0.3, "down_binds": NO_FIT}
    assert bottleneck_words("l2", both) == "+18 % until SMEM binds; x0.3 until the schedule does not fit"


def test_many_at_once_are_the_same_as_one_by_one(plain):
    problem, schedule, gpu = plain
    other = {**schedule, "stages": 2}
    one, two = elasticities_of([problem] * 2, [schedule, other], [gpu] * 2)
    alone = elasticities(problem, other, gpu)
    assert two.latency_s == alone.latency_s
    assert two.table.equals(alone.table)
    assert one.latency_s != two.latency_s


def test_a_schedule_that_cannot_run_is_refused_with_its_reason(plain):
    problem, schedule, gpu = plain
    with pytest.raises(UserError, match=r"cannot run 4096x4096x4096: SMEM: needs \d+ B of shared memory, 232448 B"):
        elasticities(problem, {**schedule, "stages": 9}, gpu)


def test_one_number_by_name(plain):
    found = elasticities(*plain, bottlenecks=False)
    table = found.table.set_index("number")
    assert found.of("clock_hz") == table.loc["clock_hz", "elasticity"]
    assert found.of("tmem_columns") == 0.0
    with pytest.raises(UserError, match="unknown number of a GPU 'l2_size'"):
        found.of("l2_size")


def test_every_number_of_the_record_has_a_row_a_unit_and_a_place_in_the_file(plain):
    table = elasticities(*plain, bottlenecks=False).table
    numbers = [f.name for f in dataclasses.fields(Gpu) if f.name not in ("mma", "cluster_sms", *DRIFT)]
    assert sorted(table["number"]) == sorted(numbers)
    assert (table["unit"] != "").all()
    places = table.set_index("number")["file"]
    assert places["l2_capacity_bytes"] == "[l2] l2_capacity_bytes"
    assert places["clock_hz"] == "[clock] boost_hz"
    assert places["tensor_flop_per_clock_sm"] == "[tensor.FAMILY] DTYPE_ACCUMULATOR"
    sizes = table["size"].to_numpy()
    assert (np.diff(sizes) <= 0).all()
