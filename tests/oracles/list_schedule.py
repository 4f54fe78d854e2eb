"""List scheduling, tile by tile: in launch order, each to the slot that is free first."""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass


def makespan(tiles_s: Sequence[float], slots: int) -> float:
    """When the last tile ends."""
    free_s = [0.0] * slots
    for seconds in tiles_s:
        heapq.heapreplace(free_s, free_s[0] + seconds)
    return max(free_s)


@dataclass(frozen=True)
class Causal:
    """A causal launch, by what it is made of: query tiles of bm rows with g heads packed, bn keys a block."""

    copies: int
    bm: int
    bn: int
    packed: int
    queries: int
    keys: int
    window: int  # 0: none
    fixed_s: float
    block_s: float

    @property
    def classes(self) -> int:
        return math.ceil(self.queries * self.packed / self.bm)

    @property
    def cap_blocks(self) -> int:
        whole = math.ceil(self.keys / self.bn)
        return min(whole, math.ceil((self.window + self.bm / self.packed) / self.bn) + 1) if self.window else whole

    def blocks(self) -> list[int]:
        """Of the tiles of one head, the longest first."""
        found = []
        for tile in reversed(range(self.classes)):
            rows = math.ceil((tile + 1) * self.bm / self.packed - 1e-9)
            keys = min(self.keys, self.keys - self.queries + rows)
            found.append(max(1, min(self.cap_blocks, math.ceil(keys / self.bn))))
        return found

    def tiles_s(self, order: str) -> list[float]:
        """In launch order: "longest_first", "shortest_first", "head_longest_first" or "head_shortest_first"."""
        head = [self.fixed_s + self.block_s * blocks for blocks in self.blocks()]
        if order.endswith("shortest_first"):
            head.reverse()
        if order.startswith("head"):
            return head * self.copies
        return [seconds for seconds in head for _ in range(self.copies)]
