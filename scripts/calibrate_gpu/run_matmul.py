"""Runs schedules on the GPU: cold weights, graph replays, a check against PyTorch. Imports PyTorch and Triton."""
# pyright: reportMissingImports=false

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from dse.kernels.gemm import GemmProblem

from . import triton_matmul
from .schedules import Planned

KERNELS: Any = triton_matmul  # type checkers without Triton do not know that a kernel takes a grid

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.float8_e4m3fn}
TOLERANCE = {"bf16": 1e-2, "fp16": 2e-3, "fp8": 1e-2}  # of ||got - wanted|| / ||wanted||, for rounded results
_COLD = 3.0  # times L2: how much the rotating weights take
_COPIES = (2, 64)
_ADD_BLOCK = 1024


@dataclass
class Buffers:
    """One shape's tensors: activations, weights in many copies, results, workspace."""

    x: Any
    weights: list[Any]
    y: Any
    wanted: Any


@dataclass(frozen=True)
class Timed:
    """One schedule's outcome.

    Attributes:
        latency_s: of each graph replay, divided by its kernels.
        error: relative, against PyTorch in fp32.
        registers, smem_bytes: of the compiled kernel.
        kernels: launches a matmul takes.
    """

    latency_s: list[float]
    error: float
    registers: int
    smem_bytes: int
    kernels: int


def make_buffers(problem: GemmProblem, seed: int = 1) -> Buffers:
    """Random tensors; as many copies of the weights as make three times L2, at least 2 and at most 64."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    dtype = DTYPES[problem.dtype]

    def normal(rows: int, columns: int) -> Any:
        return torch.randn(rows, columns, device="cuda", generator=generator, dtype=torch.float32).to(dtype)

    size = problem.n * problem.k * torch.finfo(dtype).bits / 8
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    copies = int(min(max(_COLD * l2 // size + 1, _COPIES[0]), _COPIES[1]))
    x, first = normal(problem.m, problem.k), normal(problem.n, problem.k)
    y = torch.empty(
        problem.m, problem.n, device="cuda", dtype=torch.float16 if problem.dtype == "fp16" else torch.bfloat16
    )
    return Buffers(x, [first, *(first.clone() for _ in range(copies - 1))], y, x.float() @ first.float().T)


class Matmul:
    """One schedule, compiled, to be launched on any copy of the weights."""

    def __init__(self, planned: Planned, problem: GemmProblem, buffers: Buffers) -> None:
        self.at, self.problem, self.buffers = planned.options, problem, buffers
        self.splits = self.at["SPLIT_K"]
        m, n = problem.m, problem.n
        self.parts = torch.empty(self.splits, m, n, device="cuda", dtype=torch.float32) if self.splits > 1 else None
        self.described = _takes_descriptors(problem)
        self.x = self._described(buffers.x, "BLOCK_M")
        self.weights = [self._described(w, "BLOCK_N") for w in buffers.weights]
        tiles = triton.cdiv(m, self.at["BLOCK_M"]) * triton.cdiv(n, self.at["BLOCK_N"])
        self.grid = (min(self.at["NUM_SMS"], tiles) if self.at["NUM_SMS"] else tiles * self.splits,)
        self.compiled: Any = None

    def __call__(self, copy: int = 0) -> None:
        problem, at = self.problem, self.at
        target = self.buffers.y if self.parts is None else self.parts
        self.compiled = KERNELS.tilesweep_matmul[self.grid](
            self.x, self.weights[copy], target, problem.m, problem.n, problem.k,
            BLOCK_M=at["BLOCK_M"], BLOCK_N=at["BLOCK_N"], BLOCK_K=at["BLOCK_K"], GROUP_M=at["GROUP_M"],
            SPLIT_K=self.splits, NUM_SMS=at["NUM_SMS"], DESCRIPTORS=self.described, ACCUMULATOR=tl.float32,
            num_warps=at["num_warps"], num_stages=at["num_stages"], num_ctas=at["num_ctas"],
        )  # fmt: skip
        if self.parts is not None:
            count = problem.m * problem.n
            grid = (triton.cdiv(count, _ADD_BLOCK),)
            KERNELS.tilesweep_add_parts[grid](self.parts, self.buffers.y, count, SPLIT_K=self.splits, BLOCK=_ADD_BLOCK)

    @property
    def kernels(self) -> int:
        """Launches of one call."""
        return 1 if self.parts is None else 2

    def _described(self, tensor: Any, block: str) -> Any:
        if not self.described:
            return tensor
        from triton.tools.tensor_descriptor import TensorDescriptor

        return TensorDescriptor.from_tensor(tensor, [self.at[block], self.at["BLOCK_K"]])


def time_matmul(planned: Planned, problem: GemmProblem, buffers: Buffers, replays: int) -> Timed:
    """Checks and times one schedule: a graph of one call for each copy of the weights, replayed.

    Raises:
        Exception: whatever Triton or CUDA raises where the schedule does not compile or launch.
    """
    matmul = Matmul(planned, problem, buffers)
    buffers.y.fill_(float("nan"))
    matmul(0)
    torch.cuda.synchronize()
    error = float((buffers.y.float() - buffers.wanted).norm() / buffers.wanted.norm())
    seconds = time_calls(matmul, len(buffers.weights), replays)
    kernel = matmul.compiled
    return Timed(seconds, error, int(kernel.n_regs), int(kernel.metadata.shared), matmul.kernels)


def time_library(problem: GemmProblem, buffers: Buffers, replays: int) -> list[float] | None:
    """PyTorch's own matmul, timed in the same way; None for types it does not multiply so."""
    if problem.dtype not in ("bf16", "fp16"):
        return None
    return time_calls(
        lambda copy: torch.mm(buffers.x, buffers.weights[copy].T, out=buffers.y), len(buffers.weights), replays
    )


def time_calls(call: Any, copies: int, replays: int) -> list[float]:
    """Seconds of one call, from each of `replays` replays of a graph of `copies` calls, after warm-ups."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for copy in range(min(copies, 3)):
            call(copy)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for copy in range(copies):
                call(copy)
        seconds = []
        for replay in range(-3, replays):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record(stream)
            graph.replay()
            end.record(stream)
            end.synchronize()
            if replay >= 0:
                seconds.append(begin.elapsed_time(end) * 1e-3 / copies)
    return seconds


def call_once_profiled(planned: Planned, problem: GemmProblem, buffers: Buffers) -> int:
    """Runs one schedule between cudaProfilerStart and Stop, after a warm-up outside; how many kernels that was."""
    matmul = Matmul(planned, problem, buffers)
    matmul(0)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    matmul(1)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()
    return matmul.kernels


def _takes_descriptors(problem: GemmProblem) -> bool:
    """TMA needs sm_90 and rows of whole 16 bytes."""
    bits = torch.finfo(DTYPES[problem.dtype]).bits
    return torch.cuda.get_device_capability()[0] >= 9 and problem.k * bits % 128 == 0
