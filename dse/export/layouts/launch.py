"""One layout on its way to a framework: its degrees, what the framework cannot say, what is left to do by hand."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...serving.layout_words import FROM_ZERO, layout_text, value_text
from ...serving.layouts import PLACEMENTS
from ...text import one_line

LACKS = {  # degree that none of the frameworks here knows -> what it lacks
    "hidden_split": "weights are shared along one side of a product only",
    "cp": "groups that hold the same weights and share a sequence's tokens, in prefill and decode",
}


@dataclass
class Launch:
    """A layout being put into words.

    Attributes:
        facts: of the sweep (`dse.studies.layouts.files.service_facts`).
        row: fields and columns of the layout.
        refused: what the framework cannot express, in words; empty: all of it.
        notes: what a user must add or know.
    """

    facts: Mapping[str, Any]
    row: Mapping[Any, Any]
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> int:
        return int(self.row[name])

    @property
    def block(self) -> int:
        """GPUs of a stage: they share a layer."""
        return self["tp"] * self["cp"] * self["dp"]

    @property
    def ep(self) -> int:
        """GPUs that share experts; 1 without experts."""
        return self.block // self["experts_tp"] if self.facts["experts"] else 1

    @property
    def nodes(self) -> int:
        """That an instance stands on."""
        return -(-int(self.row["gpus"]) // int(self.facts["gpus_per_node"]))

    @property
    def longest(self) -> int:
        """Tokens of a sequence at its end."""
        workload = self.facts["workload"]
        return workload["input_tokens"] + workload["output_tokens"]

    @property
    def sequences(self) -> int:
        """Of one group and micro-batch."""
        return self["batch"] // (self["dp"] * self["micro_batches"])

    @property
    def decoded(self) -> int:
        """Tokens of a decode step in one group and micro-batch."""
        return self.sequences * (1 + self.facts["workload"]["draft_tokens"])

    @property
    def step_tokens(self) -> int:
        """Most tokens of a step in one group."""
        workload = self.facts["workload"]
        whole = workload["input_tokens"] - workload["cached_tokens"]
        if workload["phase"] == "decode":
            return self.decoded
        if workload["phase"] == "prefill":
            return whole * self.sequences
        return self["chunk"] + self.decoded if self["chunk"] else max(whole, self.decoded)

    @property
    def whole_prompts(self) -> bool:
        """Whether prompts are prefilled, and none is cut."""
        return self["chunk"] == 0 and self.facts["workload"]["phase"] != "decode"

    def refuse_above_one(self, names: Mapping[str, str]) -> None:
        """Refuses degrees above 1 (or 0) that the framework does not know: name -> what it lacks."""
        for name, lacks in names.items():
            if self[name] > int(name not in FROM_ZERO):
                self.refused.append(f"{name} = {value_text(name, self[name])}: {lacks}")

    def refuse_order(self, order: Sequence[str]) -> None:
        """Refuses a placement whose axes in use do not stand in this order, the innermost first; inside one node the
        order does not matter."""
        if self.nodes == 1:
            return
        used = [axis for axis in PLACEMENTS[self["placement"]] if self[axis] > 1]
        wanted = [axis for axis in order if axis in used]
        if used != wanted:
            self.refused.append(f"placement {'.'.join(used)}: its ranks are numbered {'.'.join(wanted)}")

    def refuse_micro_batches(self) -> None:
        """Refuses micro-batches that are not as many as stages."""
        pp, parts = self["pp"], self["micro_batches"]
        if pp > 1 and parts != pp:
            self.refused.append(f"micro_batches = {parts}: it keeps a batch in flight a stage, {pp}")

    def cache_in_fp8(self) -> bool:
        """Whether the cache is to be in fp8; refuses what is neither that nor the type of the activations."""
        kv_dtype = self.facts["types"]["kv_dtype"]
        if kv_dtype not in (None, "bf16", "fp8"):
            self.refused.append(f"KV cache in {kv_dtype}: fp8 or the type of the activations")
        return kv_dtype == "fp8"

    def note_types(self, online_fp8: str | None) -> list[str]:
        """Options for the type of weights; a note where only another checkpoint has it."""
        types = self.facts["types"]
        if types["experts_dtype"]:
            self.notes.append(f"experts in {types['experts_dtype']}: name a checkpoint that has them so")
        if types["dtype"] == self.facts["weights"]:
            return []
        if types["dtype"] == "fp8" and online_fp8:
            return [online_fp8, "fp8"]
        self.notes.append(f"weights in {types['dtype']}: name a checkpoint that has them so")
        return []

    def note_workload(self, how_to_draft: str) -> None:
        """Notes on drafts, and on instances that prefill or decode alone."""
        workload = self.facts["workload"]
        if workload["draft_tokens"]:
            self.notes.append(f"{workload['draft_tokens']} drafted tokens a step: {how_to_draft}")
        if workload["phase"] != "serve":
            self.notes.append(f"this instance does {workload['phase']} alone: connect it to those that do the rest")

    def head(self, instances: int | None = None) -> list[str]:
        """Comment lines: the layout, what is predicted of it, how many instances (None: as many as have room)."""
        row = self.row
        instances = int(self.facts["gpus"]) // int(row["gpus"]) if instances is None else instances
        said = [f"{row['tokens_per_s_per_gpu']:,.1f} tokens/s a GPU"]
        said += [f"TTFT {row['ttft_s'] * 1e3:.1f} ms"] if row["ttft_s"] else []
        said += [f"TPOT {row['tpot_s'] * 1e3:.2f} ms"] if row["tpot_s"] else []
        lines = [f"{layout_text(row)}: {', '.join(said)} (predicted)"]
        where = f"{int(row['gpus'])} GPUs" + (f" on {self.nodes} nodes" if self.nodes > 1 else "")
        lines.append(f"{instances} instance{'s' if instances > 1 else ''} of {where}, on {self.facts['gpu']}")
        return [f"# {one_line(line)}" for line in (*lines, *self.notes)]


def command(words: Sequence[Any]) -> str:
    """A command line, an option a line."""
    lines: list[str] = []
    for word in map(str, words):
        starts = word.startswith("--") or not lines
        if starts:
            lines.append(shlex.quote(word))
        else:
            lines[-1] += f" {shlex.quote(word)}"
    return " \\\n  ".join(lines)
