"""One number of a content file with where it comes from."""

from dataclasses import asdict, dataclass
from typing import Any

from .toml import Problems, did_you_mean, is_number

KINDS = ("datasheet", "measured", "derived", "assumed", "fitted")
_KEYS = ("value", "kind", "source", "note", "elsewhere", "uncertainty")
_OPTIONAL = ("elsewhere", "uncertainty")
MOST_UNCERTAIN = 1.0


@dataclass(frozen=True)
class Datum:
    """A value with its unit, its kind (one of `KINDS`), its source in words, and a note (may be empty).

    A fitted value may say what datasheets, microbenchmarks or other parts say `elsewhere`: fits are bounded around it,
    and a prediction without any fit on this GPU uses it. Its `uncertainty` is a relative standard deviation; None: what
    numbers of its kind have, see `dse.content.uncertainty`.
    """

    value: float | tuple[int, ...]
    unit: str
    kind: str
    source: str
    note: str = ""
    elsewhere: float | None = None
    uncertainty: float | None = None

    @property
    def number(self) -> float:
        """The value of a datum that is one number."""
        if isinstance(self.value, tuple):
            raise TypeError(f"a list of {len(self.value)} numbers ({self.unit}) is not one number")
        return self.value

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        plain = {**asdict(self), "value": list(self.value) if isinstance(self.value, tuple) else self.value}
        return {name: value for name, value in plain.items() if name not in _OPTIONAL or value is not None}


def read_sources(raw: Any, problems: Problems) -> dict[str, str]:
    """A file's table of sources, short name -> what it stands for; empty, and one more problem, where it is none."""
    if isinstance(raw, dict) and all(isinstance(text, str) and text.strip() for text in raw.values()):
        return raw
    problems.add("sources", 'must map short names to text, e.g. whitepaper = "NVIDIA H100 whitepaper, v1.04"')
    return {}


def parse_datum(raw: Any, where: str, field: Any, sources: dict[str, str], problems: Problems) -> Datum | None:
    """A datum from its TOML form `{ value = 1.0, kind = "measured", source = "...", note = "...", elsewhere = 1.1,
    uncertainty = 0.05 }`.

    Args:
        raw: what stands in the file.
        where: dotted place, for messages.
        field: a `Field`: unit, allowed range, one number or a list.
        sources: long forms of source names; a source that is not among them stands for itself.
        problems: what is wrong is added here.

    Returns:
        The datum, or None if anything is wrong with it.
    """
    if not isinstance(raw, dict):
        problems.add(where, f"must be a table {{ value, kind, source }}, not {raw!r}")
        return None
    before = len(problems.lines)
    for key in raw:
        if key not in _KEYS:
            problems.add(where, f"unknown key {key!r}; known: {', '.join(_KEYS)}{did_you_mean(key, _KEYS)}")
    value = _value(raw, where, field, problems)
    kind, source, note = raw.get("kind"), raw.get("source"), raw.get("note", "")
    if kind is None:
        problems.add(where, f"kind is missing: one of {', '.join(KINDS)}")
    elif kind not in KINDS:
        problems.add(where, f"kind is {kind!r}; allowed: {', '.join(KINDS)}{did_you_mean(str(kind), KINDS)}")
    if not isinstance(source, str) or not source.strip():
        problems.add(where, "source is missing: say in words where the value comes from")
    if not isinstance(note, str):
        problems.add(where, f"note must be text, not {note!r}")
    elsewhere = raw.get("elsewhere")
    if elsewhere is not None and (field.listed or not is_number(elsewhere) or not field.accepts(elsewhere)):
        problems.add(where, f"elsewhere is {elsewhere!r}; allowed: {field.allowed()}")
    uncertainty = raw.get("uncertainty")
    if uncertainty is not None:
        if field.whole:
            problems.add(where, "uncertainty is for measured numbers, not for counts and capacities: leave it out")
        elif not is_number(uncertainty) or not 0 <= uncertainty <= MOST_UNCERTAIN:
            problems.add(
                where, f"uncertainty is {uncertainty!r}; allowed: a relative standard deviation from 0 to 1, e.g. 0.05"
            )
    if value is None or len(problems.lines) > before:
        return None
    said = sources.get(str(source), str(source))
    return Datum(value, field.unit, str(kind), said, note, elsewhere, uncertainty)


def _value(raw: dict[str, Any], where: str, field: Any, problems: Problems) -> float | tuple[int, ...] | None:
    value = raw.get("value")
    if "value" not in raw:
        problems.add(where, f"value is missing: {field.allowed()}")
    elif field.listed:
        if isinstance(value, list) and value and all(is_number(v) and field.accepts(v) for v in value):
            return tuple(int(v) for v in value)
        problems.add(where, f"value is {value!r}; allowed: {field.allowed()}")
    elif not is_number(value) or not field.accepts(value):
        problems.add(where, f"value is {value!r}; allowed: {field.allowed()}")
    else:
        return int(value) if field.whole else float(value)  # type: ignore[arg-type]
    return None
