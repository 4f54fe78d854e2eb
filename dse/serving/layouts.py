"""Layouts of a model over GPUs, many at once: columns of a space, groups on the fabric, what cannot be and why."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..content.model import GroupedAttention, ModelConfig
from ..step_operators import Cut
from .padded import padded_call

PLACEMENTS = (
    ("tp", "cp", "dp", "pp"),
    ("tp", "dp", "cp", "pp"),
    ("tp", "cp", "pp", "dp"),
    ("tp", "pp", "cp", "dp"),
    ("pp", "tp", "cp", "dp"),
    ("dp", "tp", "cp", "pp"),
)
ALL_GATHER, ALL_TO_ALL = 0, 1
TWO_BATCHES, FUSED = 1, 2
FIELDS = (  # in the order in which layouts are enumerated
    *("tp", "hidden_split", "kv_split", "cp", "dp", "pp", "experts_tp", "placement", "sequence_parallel", "exchange"),
    *("overlap", "micro_batches", "batch", "chunk"),
)
REASONS = {  # in the order in which they are looked for; what comes first counts
    "runs": "it can run",
    "tensor_parallel": "tp does not divide heads or columns, or neither divides the KV heads nor is a multiple of them",
    "hidden_split": "hidden_split does not divide tp or the hidden dimension, or there is no dense layer to split",
    "kv_split": "kv_split does not divide tp",
    "gpus": "an instance's GPUs (tp x cp x dp x pp) do not divide the GPUs there are",
    "stages": "more stages than layers",
    "no_experts": "dp or experts_tp above 1 without experts: instances of their own do the same",
    "experts": "experts_tp does not divide tp x cp x dp or the columns of an expert, or their quotient the experts",
    "same_placement": "another placement puts the axes in use in the same order",
    "uneven_placement": "a group has more GPUs in one node than in another",
    "sequence_parallel": "sequence_parallel without tp, or with hidden_split",
    "exchange": "all_to_all without experts on other groups, or with experts_tp above 1",
    "overlap": "two_batches without communication to hide, or fused without sequence_parallel inside one node",
    "micro_batches": "micro-batches without stages, or more of them than stages",
    "batch": "dp x micro_batches (x 2 with two_batches) does not divide the batch",
    "fabric": "the fabric joins fewer GPUs, or cannot run one of its collectives",
    "chunk": "a chunk larger than a prompt, too small for the prompts that come in, or where one phase runs alone",
    "weights": "the weights do not fit the memory",
    "activations": "weights and activations do not fit the memory",
    "kv_cache": "weights, activations and the KV cache of the batch do not fit the memory",
    "kernels": "no schedule of one of its kernels can run",
    "limit": "past a limit on time that was asked for",
}
CODES = {name: code for code, name in enumerate(REASONS)}


@dataclass(frozen=True)
class Groups:
    """How a group of GPUs lies on the nodes: GPUs in each, nodes."""

    inside: np.ndarray
    across: np.ndarray

    def times(self, other: "Groups") -> "Groups":
        """The group along two nested axes."""
        return Groups(self.inside * other.inside, self.across * other.across)


@dataclass(frozen=True)
class Layouts:
    """Columns of `FIELDS`, int64[layouts] each; `index` says where they stand in their space."""

    columns: Mapping[str, np.ndarray]
    index: np.ndarray
    gpus_per_node: int

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    def take(self, kept: np.ndarray) -> "Layouts":
        """Those at these places, or where this mask holds."""
        columns = {name: values[kept] for name, values in self.columns.items()}
        return Layouts(columns, self.index[kept], self.gpus_per_node)

    @property
    def gpus(self) -> np.ndarray:
        """Of one instance."""
        return self.block * self["pp"]

    @property
    def block(self) -> np.ndarray:
        """GPUs that share a layer's experts."""
        return self["tp"] * self["cp"] * self["dp"]

    @property
    def ep(self) -> np.ndarray:
        """GPUs that share the experts."""
        return self.block // self["experts_tp"]

    @property
    def halves(self) -> np.ndarray:
        """Parts of a micro-batch that take turns: 2 where one computes while the other communicates."""
        return np.where(self["overlap"] == TWO_BATCHES, 2, 1)

    @property
    def norm_split(self) -> np.ndarray:
        """GPUs that share the tokens outside of products and attention."""
        return np.where(self["sequence_parallel"] > 0, self["tp"], 1)

    def cut(self) -> Cut:
        """For `dse.step_operators`."""
        own = {name: self[name] for name in ("tp", "hidden_split", "kv_split", "cp", "experts_tp")}
        return Cut(**own, ep=self.ep, norm_split=self.norm_split)

    @cached_property
    def _extents(self) -> Mapping[str, tuple[Groups, np.ndarray]]:
        return {name: self._extent(stride, degree) for name, (stride, degree) in self._strides().items()}

    def groups(self, name: str) -> Groups:
        """Of an axis (tp, cp, dp, pp), or of a part of tp: hidden_split, inter_split, kv_split."""
        return self._extents[name][0]

    @property
    def uneven(self) -> np.ndarray:
        """Whether some group does not lie evenly on the nodes."""
        return np.any([~even for _, even in self._extents.values()], axis=0)

    def _strides(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        order = np.array(PLACEMENTS)[self["placement"]]
        for axis in ("tp", "cp", "dp", "pp"):
            place = np.argmax(order == axis, axis=1)
            stride = np.ones(len(self), np.int64)
            for other in ("tp", "cp", "dp", "pp"):
                inner = np.argmax(order == other, axis=1) < place
                stride *= np.where(inner, self[other], 1)
            found[axis] = (stride, self[axis])
        stride = found["tp"][0]
        split = np.minimum(self["hidden_split"], self["tp"])
        found["hidden_split"] = (stride, split)
        found["inter_split"] = (stride * split, self["tp"] // split)
        found["kv_split"] = (stride, np.minimum(self["kv_split"], self["tp"]))
        return found

    def _extent(self, stride: np.ndarray, degree: np.ndarray) -> tuple[Groups, np.ndarray]:
        from jaxmodel.sharding import extent

        pairs, inverse = np.unique(stride * 2**20 + degree, return_inverse=True)
        found = padded_call(extent, pairs // 2**20, pairs % 2**20, self.gpus_per_node)
        groups = Groups(*(values[inverse].astype(np.int64) for values in (found.inside, found.across)))
        return groups, found.even[inverse] > 0


def layouts_of(columns: Mapping[str, np.ndarray], index: np.ndarray, gpus_per_node: int) -> Layouts:
    """Layouts from a space's columns."""
    return Layouts({name: np.asarray(columns[name], np.int64) for name in FIELDS}, index, gpus_per_node)


def layout_reasons(layouts: Layouts, model: ModelConfig, gpus: int) -> np.ndarray:
    """int8[layouts]: code of the first of `REASONS` that keeps a layout from being one, as far as the model's sizes
    and the number of GPUs decide it; 0: none."""
    reason = np.zeros(len(layouts), np.int8)
    for name, _, check in CHECKS:
        left = np.flatnonzero(reason == 0)
        reason[left[check(layouts.take(left), model, gpus)]] = CODES[name]
    return reason


def _tensor_parallel(layouts: Layouts, model: ModelConfig, gpus: int) -> np.ndarray:
    at, tp = model.attention, layouts["tp"]
    wrong = at.heads % tp > 0
    if isinstance(at, GroupedAttention):
        wrong |= (at.kv_heads % tp > 0) & (tp % at.kv_heads > 0)
    if model.ffn:
        wrong |= model.ffn.inter % tp > 0
    if model.moe and model.moe.shared_experts:
        wrong |= (model.moe.shared_experts * model.moe.inter) % tp > 0
    return wrong


def _hidden_split(layouts: Layouts, model: ModelConfig, gpus: int) -> np.ndarray:
    split, tp = layouts["hidden_split"], layouts["tp"]
    wrong = (tp % split > 0) | (model.hidden % split > 0)
    return wrong | ((split > 1) & (model.ffn is None))


def _experts(layouts: Layouts, model: ModelConfig, gpus: int) -> np.ndarray:
    if model.moe is None:
        return np.zeros(len(layouts), bool)
    share = layouts["experts_tp"]
    wrong = (layouts.block % share > 0) | (model.moe.inter % share > 0)
    return wrong | (model.moe.experts % np.maximum(layouts.ep, 1) > 0)


def _no_experts(layouts: Layouts, model: ModelConfig, gpus: int) -> np.ndarray:
    alone = (layouts["dp"] > 1) | (layouts["experts_tp"] > 1)
    return alone if model.moe is None else np.zeros(len(layouts), bool)


def _exchange(layouts: Layouts, model: ModelConfig, gpus: int) -> np.ndarray:
    apart = (layouts["dp"] * layouts["cp"] > 1) & (model.moe is not None)
    return (layouts["exchange"] == ALL_TO_ALL) & (~apart | (layouts["experts_tp"] > 1))


def _overlap(layouts: Layouts, model: ModelConfig, gpus: int) -> np.ndarray:
    overlap = layouts["overlap"]
    apart = (layouts["sequence_parallel"] == 0) | (layouts.groups("tp").across > 1)
    return ((overlap == TWO_BATCHES) & (layouts.block == 1)) | ((overlap == FUSED) & apart)


def _same_placement(layouts: Layouts, model: ModelConfig, gpus: int) -> np.ndarray:
    """Whether an earlier placement has the axes of degree above 1 in the same order."""
    used = np.stack([layouts[axis] > 1 for axis in ("tp", "cp", "dp", "pp")], axis=1)
    pattern = used @ np.array([1, 2, 4, 8])
    same = np.zeros((16, len(PLACEMENTS)), bool)
    for bits in range(16):
        axes = [axis for place, axis in enumerate(("tp", "cp", "dp", "pp")) if bits >> place & 1]
        orders = [tuple(axis for axis in order if axis in axes) for order in PLACEMENTS]
        same[bits] = [order in orders[:place] for place, order in enumerate(orders)]
    return same[pattern, layouts["placement"]]


Check = Callable[[Layouts, ModelConfig, int], np.ndarray]
_GPUS = ("tp", "cp", "dp", "pp")
CHECKS: tuple[tuple[str, tuple[str, ...], Check], ...] = (  # (reason, fields that decide it, where it holds)
    ("tensor_parallel", ("tp",), _tensor_parallel),
    ("hidden_split", ("tp", "hidden_split"), _hidden_split),
    ("kv_split", ("tp", "kv_split"), lambda at, model, gpus: at["tp"] % at["kv_split"] > 0),
    ("gpus", _GPUS, lambda at, model, gpus: (at.gpus > gpus) | (gpus % at.gpus > 0)),
    ("stages", ("pp",), lambda at, model, gpus: at["pp"] > model.layers),
    ("no_experts", ("dp", "experts_tp"), _no_experts),
    ("experts", ("tp", "cp", "dp", "experts_tp"), _experts),
    ("same_placement", (*_GPUS, "placement"), _same_placement),
    ("uneven_placement", (*_GPUS, "placement", "hidden_split", "kv_split"), lambda at, model, gpus: at.uneven),
    (
        "sequence_parallel",
        ("tp", "hidden_split", "sequence_parallel"),
        lambda at, model, gpus: (at["sequence_parallel"] > 0) & ((at["tp"] == 1) | (at["hidden_split"] > 1)),
    ),
    ("exchange", ("cp", "dp", "experts_tp", "exchange"), _exchange),
    (
        "overlap",
        (*_GPUS, "hidden_split", "kv_split", "placement", "sequence_parallel", "overlap"),
        _overlap,
    ),
    ("micro_batches", ("pp", "micro_batches"), lambda at, model, gpus: at["micro_batches"] > at["pp"]),
    (
        "batch",
        ("dp", "micro_batches", "overlap", "batch"),
        lambda at, model, gpus: at["batch"] % (at["dp"] * at["micro_batches"] * at.halves) > 0,
    ),
)
