"""What-if changes of an engine's numbers: `--set engine.step_s=0`, `--set engine.memory_share=0.95`."""

import math
from collections.abc import Mapping
from dataclasses import replace

from ..errors import UserError, unknown
from .engine import NUMBERS, Engine
from .overrides import factor_of


def changed_engine(engine: Engine, overrides: Mapping[str, str | float] | None) -> Engine:
    """The engine with numbers changed; `changes` says how.

    Args:
        engine: any.
        overrides: name of `dse.content.engine.NUMBERS` -> "2x", "+10%", or a number in its unit.

    Raises:
        UserError: an unknown number, or a value that it does not allow.
    """
    values, said = dict(engine.values), list(engine.changes)
    for name, change in (overrides or {}).items():
        if name not in NUMBERS:
            raise unknown("number of an engine", name, NUMBERS)
        old, field = values[name], NUMBERS[name]
        factor = factor_of(change) if isinstance(change, str) else None
        try:
            number = old.number * factor if factor is not None else float(change)
        except (TypeError, ValueError):
            number = math.nan
        if field.whole and factor is not None and math.isfinite(number):
            number = float(round(number))
        if not field.accepts(number):
            raise UserError(
                f"--set engine.{name}={change}: not allowed; {field.allowed()}, or a change such as 2x or +10%"
            )
        values[name] = replace(old, value=number, kind="assumed", source=f"what if, {change}")
        said.append(f"engine.{name}: {old.number:g} -> {number:g}")
    return replace(engine, values=values, changes=tuple(said))
