"""What a tile program costs: occupancy, waves, pipelines, traffic and energy of whatever its table says."""

from ..machine import Gpu
from ..types import Cost
from .launch import launch_cost, launch_of
from .records import Buffer, InOrder, Needs, TileProgram
from .unequal import run_unequal
from .waves import run_waves


def program_cost(program: TileProgram, gpu: Gpu) -> Cost:
    """The cost of a tile program, as a breakdown: the same rooms and equations as GEMM's.

    Args:
        program: the kernel; its numbers broadcast against each other and against the GPU's.
        gpu: the machine.

    Returns:
        a `Cost`. A candidate that does not fit has a `reason` and finite numbers elsewhere.

    Raises:
        ValueError: when traced, an arc names an action that the loop does not have, two of its actions share a name, or
            actions wait for each other within one iteration.

    Equations: docs/tile-programs.md.
    """
    _check_names(program)
    launch = launch_of(program, gpu)
    if program.lengths is None:
        times, starving = run_waves(program, launch.sms, launch.slots, gpu)
    else:
        times, starving = run_unequal(program, program.lengths, launch.sms, launch.slots, gpu)
    return launch_cost(program, launch, times, starving, gpu)


def _check_names(program: TileProgram) -> None:
    known = [action.name for action in program.loop.actions]
    if twice := sorted({name for name in known if known.count(name) > 1}):
        raise ValueError(f"two actions of the loop are called {', '.join(twice)}: arcs could mean either")
    named = {name for arc in program.loop.arcs for name in _named(arc)}
    if missing := sorted(named - set(known)):
        raise ValueError(f"arcs of the loop name {', '.join(missing)}; its actions are {', '.join(known)}")


def _named(arc: Needs | Buffer | InOrder) -> tuple[str, ...]:
    if isinstance(arc, Needs):
        return arc.action, arc.of
    if isinstance(arc, Buffer):
        return arc.filled_by, arc.freed_by
    return tuple(name for name, _ in arc.order)
