"""nvMatmulHeuristics beside the model, with a stand-in that has the interface of the package's Python reference."""

import enum
import sys
import types
from importlib.machinery import ModuleSpec
from typing import ClassVar

import numpy as np
import pytest
from cli_run import answer
from measured_tables import measured_table, predicted_best

from dse.validation import nvmatmul
from dse.validation.validate import validate_gemm


class _Kernel:
    def __init__(self, tile: tuple[int, int, int]) -> None:
        self.cta_tile_m, self.cta_tile_n, self.cta_tile_k = tile
        self.stages, self.split_k, self.cluster_m, self.cluster_n = 4, 2, 1, 2
        self.cta_order, self.swizzle_factor = 1, 8


class _Interface:
    asked: ClassVar[list] = []

    def __init__(self, backend=None, path=None, flags=None, load_discovery_implicitly=True, gpu=None) -> None:
        self.gpu = gpu
        _Interface.asked.append((backend.name, flags.name, gpu.name))

    def makeNvMatmulHeuristicsProblem(self, m, n, k, matmulLayout, batch_size=1):
        return (m, n, k, matmulLayout.name)

    def get(self, problem, count, precision=None):
        m = problem[0]
        assert (count, precision, problem[3]) == (1, "TST", "NT_ROW_MAJOR")
        if m == 64:
            return []
        return [{"kernel": _Kernel((128, 256, 64)), "runtime": 2e-6 + m * 1e-9}]


@pytest.fixture
def installed(monkeypatch):
    library = types.ModuleType("nvMatmulHeuristics")
    library.__spec__ = ModuleSpec("nvMatmulHeuristics", None)
    library.NvMatmulHeuristicsInterfaceEx = _Interface
    library.NvMatmulHeuristicsTarget = enum.IntEnum("Target", {"GENERIC": 0, "CUTLASS3": 4})
    library.NvMatmulHeuristicsFlags = enum.IntEnum("Flags", {"NONE": 0, "PERF_MODEL_BASED_AUTO_TUNING": 8})
    library.NvMatmulHeuristicsMatmulLayout = enum.IntEnum("Layout", {"NN_ROW_MAJOR": 0, "NT_ROW_MAJOR": 1})
    library.NvMatmulHeuristicsNvidiaGpu = enum.IntEnum("Gpu", {"H100_SXM": 9000, "H200_SXM": 9003})
    monkeypatch.setitem(sys.modules, "nvMatmulHeuristics", library)
    _Interface.asked.clear()
    return library


def test_picks_and_times_are_taken_over(installed):
    picks = nvmatmul.heuristic_picks([(1000, 8, 8), (64, 8, 8)], "h100_sxm", "bf16")
    assert _Interface.asked == [("GENERIC", "PERF_MODEL_BASED_AUTO_TUNING", "H100_SXM")]
    assert picks.latency_us[0] == pytest.approx(3.0)
    assert np.isnan(picks.latency_us[1])
    assert picks.tile.tolist() == [[128, 256], [0, 0]]
    words = "tile=128x256x64 stages=4 cluster=1x2 cta_order=col grid_swizzle=8 split_k=2"
    assert picks.text == (words, "")


def test_what_it_cannot_be_asked_is_said(installed, monkeypatch):
    assert "it knows no such GPU" in nvmatmul.heuristic_picks([], "h10", "bf16")
    assert "known are bf16, fp16, fp8" in nvmatmul.heuristic_picks([], "h100_sxm", "tf32")
    assert "cannot be used (KeyError: 'B200')" in nvmatmul.heuristic_picks([(8, 8, 8)], "b200_sxm", "bf16")

    def broken(**options):
        raise OSError("no such library")

    installed.NvMatmulHeuristicsInterfaceEx = broken
    assert "cannot be used (OSError: no such library)" in nvmatmul.heuristic_picks([(8, 8, 8)], "h100_sxm", "bf16")
    monkeypatch.setitem(sys.modules, "nvMatmulHeuristics", None)
    assert "cannot be used (ModuleNotFoundError" in nvmatmul.heuristic_picks([(8, 8, 8)], "h100_sxm", "bf16")


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr("dse.validation.validate.best_schedules", predicted_best)
    path = tmp_path / "measured.csv"
    measured_table(("h100_sxm",)).to_csv(path, index=False)
    return str(path)


def test_it_stands_beside_the_model_where_it_is_installed(installed, table, capsys):
    (found,) = validate_gemm(table=table)
    rows = found.rows
    assert found.errors["nvmatmul"].count == (rows["m"] != 64).sum()  # it gave nothing for the others
    assert rows.loc[rows["m"] == 1, "nvmatmul_us"].to_numpy() == pytest.approx(2.001)
    tiles = rows["schedule"].str.contains("tile=128x256") & ~rows["schedule"].str.contains("swap_ab")
    assert found.same_tile == pytest.approx((tiles & (rows["m"] != 64)).mean(), abs=0.05)
    _, out, _ = answer(capsys, "validate", "gemm", "--table", table)
    assert "nvMMH" in out.splitlines()[2]
    assert "nvMMH: nvMatmulHeuristics' own time. Rows where it picks the same CTA tile: h100_sxm" in out
    assert "its times are made to order kernels" in out


def test_it_is_never_needed(table, monkeypatch, capsys):
    monkeypatch.setattr("dse.validation.nvmatmul.find_spec", lambda name: None)
    (found,) = validate_gemm(table=table)
    assert set(found.errors) == {"model", "roofline"}
    assert found.same_tile is None
    _, out, _ = answer(capsys, "validate", "gemm", "--table", table)
    assert "nvM" not in out


def test_the_package_itself_answers_where_it_is_installed():
    pytest.importorskip("nvMatmulHeuristics", reason="the PyPI package nvidia-matmul-heuristics is not installed")
    shapes = [(16, 4096, 8192), (4096, 4096, 4096)]
    for gpu in ("a100_sxm", "h100_sxm", "h200_sxm", "b200_sxm"):
        picks = nvmatmul.heuristic_picks(shapes, gpu, "bf16")
        assert isinstance(picks, nvmatmul.Picks), picks
        assert (picks.latency_us > 1).all()
        assert picks.latency_us[1] > picks.latency_us[0]
        assert (picks.tile >= 8).all()
        assert picks.text[0].startswith(f"tile={picks.tile[0][0]}x{picks.tile[0][1]}x")
