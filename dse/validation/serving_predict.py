"""What the serving model says of one published figure: its steps as the run took them, put together as it measured."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..content.default_fabric import default_fabric
from ..content.engine import Engine, load_engine
from ..content.engine_changes import changed_engine
from ..content.fabric import load_fabric
from ..content.gpu import load_gpu
from ..content.model import LatentAttention, ModelConfig, load_model
from ..errors import UserError
from ..serving.collective_times import CollectiveTimes
from ..serving.kernel_times import KernelTimes
from ..serving.layouts import Layouts
from ..serving.memory import memory_of
from ..serving.serve import Service, one_layout
from ..serving.step_times import StepModel, StepTimes
from ..step_operators import Types, Work
from .serving_figures import MXFP4, ServingFigure

ENGINES = (  # (how the software begins, engine file)
    ("SGLang of", "sglang_deepep"),
    ("SGLang", "sglang"),
    ("DeepSeek", "sglang_deepep"),
    ("TensorRT-LLM 0.9", "trtllm_0_9"),
    ("TensorRT-LLM or", "trtllm"),
    ("TensorRT-LLM", "trtllm"),
    ("Dynamo", "trtllm"),
    ("NIM", "trtllm"),
    ("vLLM 0.6", "vllm_0_6"),
    ("vLLM 0.7", "vllm_0_6"),
    ("vLLM of November 2024", "vllm_0_6"),
    ("vLLM", "vllm"),
)
OPTIONS = {"all-reduce fusion": "norm_in_all_reduce"}  # words of a software -> a number of its engine that is then 1
STATIC = ("TensorRT-LLM 0.9", "vLLM of November 2024")  # one batch at a time: all prompts, then all decode steps
JOINED = ("TensorRT-LLM", "NIM", "Dynamo")  # prompts and decoded tokens run in one step
CONTEXTS = 3  # of a decode that grows, midpoints of as many parts
LARGEST_BATCH = 2048  # sequences a GPU's scheduler takes: trtllm-bench's default


@dataclass(frozen=True)
class ServingPrediction:
    """Of one figure.

    Attributes:
        value: in the figure's unit.
        batch: sequences; of a figure without, as many as fit.
        engine: file that was used.
        decode_s, prefill_s: a decode step, and the prefill of what is prefilled at once; NaN where there is none.
        fits: whether weights, cache and activations fit the memory by the model.
        parts: seconds of a step (decode where there is one) by part of the model, collectives as "exchange NAME", the
            host's as "host".
    """

    value: float
    batch: int
    engine: str
    decode_s: float
    prefill_s: float
    fits: bool
    parts: dict[str, float]


@dataclass
class ServingModels:
    """Predicts figures; tuned kernels and priced collectives are kept from figure to figure."""

    clock: str = "boost"
    _kernels: dict[tuple[str, str], KernelTimes] = field(default_factory=dict)
    _collectives: dict[tuple[str, str, str], CollectiveTimes] = field(default_factory=dict)

    def predict(self, figure: ServingFigure) -> ServingPrediction:
        """The figure as the model says it.

        Raises:
            UserError: an unknown model or GPU, no engine for its software, no kernel that can run.
        """
        return _Figure(figure, *self._steps(figure)).predicted()

    def _steps(self, figure: ServingFigure) -> tuple[Service, StepModel]:
        engine = load_engine(engine_of(figure.software))
        for option, number in OPTIONS.items():
            if option in figure.software:
                engine = changed_engine(engine, {number: 1.0})
        gpu = load_gpu(figure.gpu)
        name = figure.fabric or default_fabric(gpu, figure.gpus)
        fabric = load_fabric(name, {"0:link": figure.link} if figure.link else None)
        model = load_model(figure.model)
        if figure.vocabulary:
            model = replace(model, vocabulary=figure.vocabulary)
        if figure.experts and model.moe:
            model = replace(model, moe=replace(model.moe, experts=figure.experts))
        service = Service(model, gpu, figure.gpus, fabric, engine, types=types_of(figure, model), clock=self.clock)
        kernels = self._kernels.setdefault((figure.gpu, engine.name), KernelTimes(gpu, engine, self.clock))
        key = (name, figure.link, engine.rule)
        collectives = self._collectives.setdefault(key, CollectiveTimes(fabric, engine.rule))
        return service, StepModel(model, service.types, kernels, collectives, engine)


def engine_of(software: str) -> str:
    """The engine file that stands for a software and its version.

    Raises:
        UserError: none does.
    """
    for begins, engine in ENGINES:
        if software.startswith(begins):
            return engine
    known = ", ".join(dict.fromkeys(begins for begins, _ in ENGINES))
    raise UserError(f"software = {software!r} has no engine: it must begin with one of {known}")


def types_of(figure: ServingFigure, model: ModelConfig) -> Types:
    """Of what a figure's numbers are: nvfp4 checkpoints of latent-attention models keep attention's weights wide,
    mxfp4 ones all but the experts."""
    kv_dtype = figure.kv_dtype if figure.kv_dtype not in ("bf16", "fp16") else None
    if figure.dtype == MXFP4:
        return Types("bf16", "nvfp4", kv_dtype)
    latent = figure.dtype == "nvfp4" and isinstance(model.attention, LatentAttention)
    return Types(figure.dtype, None, kv_dtype, attention_dtype="bf16" if latent else None)


@dataclass(frozen=True)
class _Figure:
    figure: ServingFigure
    service: Service
    steps: StepModel

    @property
    def engine(self) -> Engine:
        return self.service.engine

    def predicted(self) -> ServingPrediction:
        figure = self.figure
        if not figure.input_tokens or not figure.output_tokens:
            raise UserError(f"{figure.name}: input_tokens or output_tokens is 0, unknown: nothing to predict")
        batch = figure.batch or self.largest_batch()
        whole, prefill = self.layout(batch), float("nan")
        if figure.phase == "prefill":
            together = figure.software.startswith(STATIC) or figure.unit != "ttft_s"
            step, prefill = self.prefill(whole, batch if together else 1)
            return self.answer(batch, step, float("nan"), prefill, self.rate(batch, prefill, prefill))
        contexts = self.contexts()
        steps, decode = self.decode(whole, batch, contexts)
        if figure.phase == "decode":
            tpot = decode / figure.acceptance
        elif figure.software.startswith(STATIC):
            _, prefill = self.prefill(whole, batch)
            tpot = (prefill + (figure.output_tokens - 1) * decode) / figure.output_tokens
        else:
            tpot, prefill = self.shared(whole, batch, decode)
        return self.answer(batch, steps, decode, prefill, self.rate(batch, tpot, prefill))

    def shared(self, whole: Layouts, batch: int, decode: float) -> tuple[float, float]:
        """(seconds a token, of a prompt) where prompts come in while others are decoded."""
        figure = self.figure
        passes = batch / figure.dp_attention / figure.output_tokens  # prompts that a group starts in a token
        _, prompt = self.prefill(whole, figure.dp_attention)
        if not figure.software.startswith(JOINED):
            return (decode / figure.acceptance + passes * prompt), prompt
        share = passes * figure.acceptance  # prompts a step, of a group
        step, running = self.joined(whole, batch, share)
        extra = max(share - 1.0, 0.0) * prompt
        return (running * step + (1.0 - running) * decode + extra) / figure.acceptance, prompt

    def joined(self, whole: Layouts, batch: int, share: float) -> tuple[float, float]:
        """(seconds of a step in which some group has a prompt, how many steps are so): all groups wait for it."""
        figure, groups = self.figure, self.figure.dp_attention
        some = 1.0 - (1.0 - min(share, 1.0)) ** groups
        work = self.decode_work(batch, np.array([self.contexts().mean()]))
        prompts = groups * min(share, 1.0) / some
        everywhere = np.asarray(work.everywhere) + round(figure.input_tokens * prompts)
        whole_work = replace(work, prompts=1, prompt_tokens=figure.input_tokens, everywhere=everywhere)
        return float(self.steps.times(whole_work, whole).round_s[0]) + self.engine["step_s"], some

    def layout(self, batch: int, points: int = 1) -> Layouts:
        figure = self.figure
        degrees = {"tp": figure.tp, "dp": figure.dp_attention, "pp": figure.pp, "batch": batch}
        degrees["experts_tp"] = 1
        if self.steps.model.moe:
            degrees["experts_tp"] = figure.tp * figure.dp_attention // figure.ep
        else:
            degrees["dp"] = 1
        one = one_layout(self.service, **degrees, exchange=figure.exchange, overlap=figure.overlap)
        return one.take(np.zeros(points, int))

    def contexts(self) -> np.ndarray:
        figure = self.figure
        first, last = figure.input_tokens + 1, figure.input_tokens + figure.output_tokens
        parts = CONTEXTS if figure.phase == "mixed" and figure.software.startswith(STATIC) else 1
        middle = first + (np.arange(parts) + 0.5) / parts * (last - first) + figure.speculative
        return np.maximum(middle.round().astype(np.int64), 1)

    def decode_work(self, batch: int, contexts: np.ndarray, queries: int | None = None) -> Work:
        figure = self.figure
        queries = figure.speculative + 1 if queries is None else queries
        sequences = -(-batch // figure.dp_attention)
        everywhere = sequences * queries * figure.dp_attention
        return Work(
            sequences=sequences, queries=queries, context=contexts, everywhere=everywhere, routing=figure.routing
        )

    def decode(self, whole: Layouts, batch: int, contexts: np.ndarray) -> tuple[StepTimes, float]:
        layouts = whole.take(np.zeros(len(contexts), int))
        step = self.steps.times(self.decode_work(batch, contexts), layouts)
        seconds = float(np.mean(step.round_s)) + self.engine["step_s"]
        if self.figure.speculative:
            one = self.steps.times(self.decode_work(batch, contexts, 1), layouts)
            seconds += self.figure.speculative * float(np.mean(one.drafted_s(self.steps.model.layers, 1.0)))
        return step, seconds

    def prefill(self, whole: Layouts, prompts: int) -> tuple[StepTimes, float]:
        """Of so many prompts in one step, over all groups of attention."""
        figure = self.figure
        tokens, everywhere = figure.input_tokens, prompts * figure.input_tokens
        prompts = -(-prompts // figure.dp_attention)
        work = Work(prompts=prompts, prompt_tokens=tokens, everywhere=everywhere, routing=figure.routing)
        step = self.steps.times(work, whole)
        return step, float(step.round_s[0]) + self.engine["step_s"]

    def rate(self, batch: int, tpot: float, prefill: float) -> float:
        figure = self.figure
        copies = figure.gpus // (figure.tp * figure.dp_attention * figure.pp)
        return {
            "tpot_s": tpot,
            "ttft_s": prefill,
            "output_tokens_per_s": copies * batch / tpot,
            "output_tokens_per_s_per_gpu": copies * batch / tpot / figure.gpus,
            "input_tokens_per_s": copies * batch * figure.input_tokens / prefill,
        }[figure.unit]

    def fits(self, layouts: Layouts) -> np.ndarray:
        figure = self.figure
        longest = figure.input_tokens + figure.output_tokens
        tokens = np.full(len(layouts), min(self.engine["activation_tokens"], 8192.0))
        capacity = self.service.gpu["ddr_capacity_bytes"]
        held = memory_of(self.steps.model, self.steps.types, layouts, self.engine, capacity, longest, tokens)
        return held.weights + held.kv_cache + held.activations <= held.usable

    def largest_batch(self) -> int:
        most = LARGEST_BATCH * self.figure.dp_attention
        sizes = np.arange(1, most // self.figure.dp_attention + 1) * self.figure.dp_attention
        one = self.layout(int(sizes[0])).take(np.zeros(len(sizes), int))
        columns = dict(one.columns) | {"batch": sizes}
        fitting = sizes[self.fits(Layouts(columns, one.index, one.gpus_per_node))]
        if not len(fitting):
            raise UserError(f"{self.figure.name}: not one sequence fits the memory by the model")
        return int(fitting[-1])

    def answer(self, batch: int, step: StepTimes, decode: float, prefill: float, value: float) -> ServingPrediction:
        if not math.isfinite(value):
            raise UserError(f"{self.figure.name}: a kernel or collective of it cannot run by the model")
        parts = {name: float(np.mean(seconds)) for name, seconds in step.by_layer.items()}
        parts |= {f"exchange {name}": float(np.mean(seconds)) for name, seconds in step.by_exchange.items()}
        shown: dict[str, Any] = {name: seconds for name, seconds in parts.items() if seconds > 0.0}
        shown["host"] = self.engine["step_s"]
        fits = bool(self.fits(self.layout(batch))[0])
        return ServingPrediction(value, batch, self.engine.name, decode, prefill, fits, shown)
