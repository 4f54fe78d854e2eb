"""What a kernel says of itself: the actions of one tile, what waits for what, and how many tiles there are.

Names and structure are Python and are read once, when the model is traced; every number is an array with one entry a
candidate. So a program is written once for millions of schedules.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..causal_tiles import CausalLaunch, CausalTiles
from ..occupancy import Footprint
from ..reasons import Reason
from ..resources import Demand
from ..types import Bools, Floats


@dataclass(frozen=True)
class Action:
    """Something that one tile does: a load, a matrix product, a softmax, a store.

    Attributes:
        name: of the action, for arcs and messages.
        demand: what it asks of the nine pipelines each time. The pipelines work at the same time, so its service is the
            longest of their busy times, loads and arithmetic overlapping as the GPU's `overlap_loss` allows.
        latency_s: what passes after the service before anything that needs the result can start (a load's way).
        overhead_s: time for which it holds the pipeline `held` beyond its demand: barriers, issue.
        held: name of that pipeline, one of `jaxmodel.types.PIPELINES`.
        writes: its DDR bytes are written. They are given as bytes, a written one's higher cost is added here.
    """

    name: str
    demand: Demand
    latency_s: Floats = 0.0
    overhead_s: Floats = 0.0
    held: str = "tensor"
    writes: bool = False


@dataclass(frozen=True)
class Needs:
    """`action` of iteration i starts once `of` of iteration i - distance is done (its latency included).

    Attributes:
        action, of: names of actions of the loop; the same one for a self-carried dependency.
        distance: iterations between the two, a whole number of at least 0.
        hand_over_s: passes in between: a barrier, a signal to another warp.
    """

    action: str
    of: str
    distance: int = 0
    hand_over_s: Floats = 0.0


@dataclass(frozen=True)
class Buffer:
    """A ring of `slots` buffers: `filled_by` takes one, `freed_by` gives it back when it is done.

    Attributes:
        filled_by, freed_by: names of actions of the loop.
        slots: how many there are, at least 1; a number or one a candidate.
        hand_over_s: passes between the release and the next fill.
    """

    filled_by: str
    freed_by: str
    slots: Floats
    hand_over_s: Floats = 0.0


@dataclass(frozen=True)
class InOrder:
    """An agent that does its actions one after the other, in this order, again in every iteration: a warp group, or
    the tensor cores when several warp groups take turns.

    Attributes:
        name: of the agent.
        order: names of actions, each with the iteration it belongs to relative to the others (0, or 1 for the next one
            when an agent works ahead).
        hand_over_s: passes between two of its actions.
    """

    name: str
    order: tuple[tuple[str, int], ...]
    hand_over_s: Floats = 0.0


@dataclass(frozen=True)
class Loop:
    """The loop of a tile.

    Attributes:
        actions: of one iteration, in program order.
        trips: iterations of a tile, at least 1 (the mean where tiles differ).
        arcs: what waits for what: `Needs`, `Buffer` and `InOrder`.
        ahead: iterations whose loads may run under the previous tile's epilogue where CTAs are persistent.
    """

    actions: tuple[Action, ...]
    trips: Floats
    arcs: tuple[Needs | Buffer | InOrder, ...] = ()
    ahead: Floats = 0.0


@dataclass(frozen=True)
class Lengths:
    """Loops that differ in length from tile to tile, as those of causal kernels do: `copies` tiles of each class, class
    i (0 the longest) of n_i = min(cap_blocks, ceil((top_rows - i step_rows) / block_rows)) iterations.

    Attributes:
        copies, classes: of each class, and of them; copies x classes is the program's `tiles`.
        top_rows, step_rows, block_rows, cap_blocks: see `jaxmodel.causal_tiles.CausalTiles`.
        order: of the launch, one of `jaxmodel.ordered_tiles`' codes.
    """

    copies: Floats
    classes: Floats
    top_rows: Floats
    step_rows: Floats
    block_rows: Floats
    cap_blocks: Floats
    order: int | Floats = 0

    def tiles(self, fixed_s: Floats = 0.0, block_s: Floats = 1.0) -> CausalTiles:
        """Tiles of such lengths, of `fixed_s` and `block_s` an iteration."""
        return CausalTiles(
            copies=self.copies,
            classes=self.classes,
            top_rows=self.top_rows,
            step_rows=self.step_rows,
            block_rows=self.block_rows,
            cap_blocks=self.cap_blocks,
            fixed_s=fixed_s,
            block_s=block_s,
        )

    @property
    def mean_trips(self) -> Floats:
        """Iterations of a tile in the mean: the loop's `trips`."""
        return CausalLaunch(self.tiles()).blocks_before(self.classes) / self.classes


@dataclass(frozen=True)
class Reduction:
    """What is added up after the tiles: a second kernel, or a fix-up.

    Attributes:
        seconds: it takes, launch included.
        workspace_bytes: global memory for the parts.
        read_bytes, write_bytes: of these parts that go through DDR.
    """

    seconds: Floats = 0.0
    workspace_bytes: Floats = 0.0
    read_bytes: Floats = 0.0
    write_bytes: Floats = 0.0


@dataclass(frozen=True)
class TileProgram:
    """A kernel as one tile does it, and how many tiles there are.

    Attributes:
        tiles: CTAs' worth of work in the launch.
        footprint: what a CTA occupies.
        registers_per_thread: of the threads that compute.
        before: actions once a tile before its loop, one after the other.
        loop: the tile's loop.
        after: actions once a tile after its loop, one after the other; drained in turn by the SM's tiles.
        checks: why a schedule cannot run: (where it holds, reason), in the order in which it would be found.
        flop: useful operations of the whole problem.
        persistent: 1 where a CTA takes its next tile itself.
        overlapped: where a persistent CTA's `after` runs under its next tile's loop.
        sms_free: SMs that the launch leaves to something else.
        framework_s: what the framework adds to a launch, beyond the GPU's launch overhead.
        helpers_s: other kernels that it needs.
        reduction: what is added up after the tiles.
        lengths: of the loops where they differ; then `loop.trips` is their mean. None: all loops are alike.
        iterations: of all tiles' loops together. None: tiles x `loop.trips`; fewer where the last part of a split K is
            shorter than the others.
        streams: 1 where the slots share all iterations evenly (stream-K), so that there is no tail and tiles fewer than
            slots are worked on by several. None: a tile is one slot's everywhere. Not together with `lengths`.
        net_bytes_per_s: of the links that actions' `net_bytes` go over. Tiles do not wait for them here: a kernel says
            how its transfers meet its tiles (`jaxmodel.overlap`). None: it works alone.
        communication_s: of transfers that no tile hides, part of the latency.
    """

    tiles: Floats
    footprint: Footprint
    registers_per_thread: Floats
    loop: Loop
    before: tuple[Action, ...] = ()
    after: tuple[Action, ...] = ()
    checks: Sequence[tuple[Bools, Reason]] = ()
    flop: Floats = 0.0
    persistent: Floats = 0.0
    overlapped: Bools = False
    sms_free: Floats = 0.0
    framework_s: Floats = 0.0
    helpers_s: Floats = 0.0
    reduction: Reduction = field(default_factory=Reduction)
    lengths: Lengths | None = None
    iterations: Floats | None = None
    streams: Floats | None = None
    net_bytes_per_s: Floats | None = None
    communication_s: Floats = 0.0

    @property
    def mean_trips(self) -> Floats:
        """Iterations of a tile in the mean over the launch: what demands are counted by."""
        return self.loop.trips if self.iterations is None else self.iterations / self.tiles
