"""How many rows each of a rank's experts gets: balanced, uniform, power law, or given counts -> classes of experts.

Uniform: every token goes to `topk` experts drawn alike, so that few tokens leave experts without rows, which balanced
dealing does not.

The power law is the one of NVIDIA's AIConfigurator, whose collectors timed the MoE layers of moe.parquet: every expert
draws a weight from a bounded power law, rows are dealt in proportion and rounded, no expert gets a token twice, and of
`ep` ranks the one with the most rows is looked at. Its collectors average 5 to 10 draws; here it is 24, always the
same, so that a problem is one problem.
"""

import re
from functools import lru_cache

import numpy as np

from ..errors import UserError

DRAWS = 24
CLASSES = 16  # at most: a compiled model holds as many
POWER_LAW = re.compile(r"power_law_(\d+(?:\.\d+)?)")
DRAWN_TOKEN_BY_TOKEN = 64  # tokens at most; with more, rows are dealt to experts as a whole
HELP = (
    "rows an expert gets: balanced, uniform (drawn by chance), power_law_ALPHA (e.g. power_law_1.2), or counts of this "
    "rank's experts (5,0,3)"
)

Classes = tuple[tuple[float, float], ...]  # (rows of one expert, experts)


def check_distribution(text: str, tokens: int, experts: int, topk: int, ep: int) -> None:
    """Raises where a distribution is unreadable, or its counts do not suit the problem.

    Raises:
        UserError: naming the distribution and what is allowed.
    """
    law = POWER_LAW.fullmatch(text)
    if text in ("balanced", "uniform") or (law and float(law[1]) != 1.0):
        return
    if law:
        raise UserError("distribution 'power_law_1': an exponent of 1 has no closed form here; write power_law_1.01")
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise UserError(
            f"distribution {text!r} is none of balanced, uniform, power_law_ALPHA (e.g. power_law_1.2), counts 5,0,3"
        )
    counts = [int(part) for part in text.split(",")]
    local = experts // ep
    if len(counts) != local or max(counts) > tokens or sum(counts) > tokens * topk or not sum(counts):
        raise UserError(
            f"distribution {text!r} has {len(counts)} counts that sum to {sum(counts)}: this rank has {local} "
            f"expert(s), each gets at most {tokens} rows, all together 1 to {tokens * topk}"
        )


@lru_cache(maxsize=4096)
def expert_classes(distribution: str, tokens: int, experts: int, topk: int, ep: int = 1) -> Classes:
    """This rank's experts that get rows, in at most `CLASSES` classes; the numbers of experts are means over draws.

    Args:
        distribution: "balanced", "uniform", "power_law_1.2" or counts, checked.
        tokens: of all ranks.
        experts: of all ranks; `ep` divides it.
        topk: experts a token goes to.
        ep: ranks that share the experts.

    Returns:
        (rows, experts) with whole rows, largest first; never empty: a rank without rows gets one expert with one row.
    """
    law = POWER_LAW.fullmatch(distribution)
    if law:
        draws = [_busiest_rank(counts, ep) for counts in power_law_counts(tokens, experts, topk, float(law[1]), ep)]
    elif distribution == "uniform":
        draws = [_busiest_rank(counts, ep) for counts in uniform_counts(tokens, experts, topk)]
    elif distribution == "balanced":
        draws = [balanced_counts(tokens, experts, topk)[: experts // ep]]
    else:
        draws = [np.array([int(part) for part in distribution.split(",")])]
    return classes_of(draws)


def balanced_counts(tokens: int, experts: int, topk: int) -> np.ndarray:
    """Rows of every expert where token t's experts stand `stride` apart from t on, or, for few tokens, spread."""
    stride = -(-experts // topk)
    if tokens < stride:
        token, choice = np.arange(tokens)[:, None], np.arange(topk)
        chosen = np.floor(token * stride / tokens + choice * stride).astype(int) % experts
        return np.bincount(chosen.ravel(), minlength=experts)
    first = tokens // experts + (np.arange(experts) < tokens % experts)  # rows of every token's first expert
    return sum((np.roll(first, choice * stride) for choice in range(topk)), np.zeros(experts, int))


def uniform_counts(tokens: int, experts: int, topk: int) -> np.ndarray:
    """Rows of every expert in `DRAWS` draws, int64[draws, experts]: each token goes to `topk` experts, all alike.

    Of more tokens than `DRAWN_TOKEN_BY_TOKEN` all rows are dealt at once, tokens x topk of them, each to any expert: an
    expert's share varies by sqrt((experts - 1) / (experts - topk)) more than that of distinct experts a token, and what
    is past one row a token is left out.
    """
    random = np.random.default_rng(0)
    if tokens > DRAWN_TOKEN_BY_TOKEN:
        dealt = random.multinomial(tokens * topk, np.full(experts, 1.0 / experts), size=DRAWS)
        return np.minimum(dealt, tokens)
    order = random.random((DRAWS, tokens, experts)).argpartition(topk - 1, axis=2)[:, :, :topk]
    return np.stack([np.bincount(draw.ravel(), minlength=experts) for draw in order])


def power_law_counts(tokens: int, experts: int, topk: int, alpha: float, ep: int = 1) -> list[np.ndarray]:
    """Rows of every expert in `DRAWS` draws. What rounding and the bound of one row a token leave over goes, rank by
    rank, to the experts with the fewest rows; what is too much is taken from those with the most."""
    low, high = (1.0, 0.8 * tokens) if tokens * topk > experts else (0.01, 2.0)
    power, total = 1.0 - alpha, tokens * topk
    random, found = np.random.default_rng(0), []
    for _ in range(DRAWS):
        weight = ((high**power - low**power) * random.random(experts) + low**power) ** (1.0 / power)
        counts = np.minimum(np.rint(weight / weight.sum() * total).astype(int), tokens).reshape(ep, -1)
        missing = total - int(counts.sum())
        found.append((_raised if missing > 0 else _lowered)(counts, abs(missing), tokens).ravel())
    return found


def classes_of(draws: list[np.ndarray]) -> Classes:
    """Experts of all draws by their rows: one class a number of rows, or, where those are more than `CLASSES`, one a
    range on a logarithmic scale, with the mean of its rows."""
    rows, times = np.unique(np.concatenate(draws).astype(float), return_counts=True)
    rows, times = rows[rows > 0][::-1], times[rows > 0][::-1]
    if not len(rows):
        return ((1.0, 1.0),)
    group = np.arange(len(rows))
    if len(rows) > CLASSES:
        scale = np.log(rows[0] / rows) / np.log(rows[0] / rows[-1])
        group = np.minimum((scale * CLASSES).astype(int), CLASSES - 1)
    found = []
    for one in np.unique(group):
        here = group == one
        mean = float((rows[here] * times[here]).sum() / times[here].sum())
        found.append((max(round(mean), 1), float(times[here].sum()) / len(draws)))
    return tuple((float(a), b) for a, b in found)


def padded(classes: Classes) -> Classes:
    """As many classes as one of few numbers, so that a model is compiled for few: the rest are of no experts."""
    size = next((size for size in (1, 4, CLASSES) if size >= len(classes)), len(classes))
    return classes + ((1.0, 0.0),) * (size - len(classes))


def _busiest_rank(counts: np.ndarray, ep: int) -> np.ndarray:
    ranks = counts.reshape(ep, -1)
    return ranks[ranks.sum(axis=1).argmax()]


def _raised(counts: np.ndarray, missing: int, most: int) -> np.ndarray:
    """`missing` rows more, shared evenly by the ranks that have room, in each to the experts with the fewest."""
    counts = counts.copy()
    while missing:
        room = (most - counts).sum(axis=1)
        open_ranks = np.flatnonzero(room)
        share, rest = divmod(missing, len(open_ranks))
        for place, rank in enumerate(open_ranks):
            given = min(share + (place < rest), int(room[rank]))
            counts[rank] = _levelled(counts[rank], given)
            missing -= given
    return counts


def _lowered(counts: np.ndarray, excess: int, most: int) -> np.ndarray:
    """`excess` rows fewer, in the same way from the experts with the most."""
    return most - _raised(most - counts, excess, most)


def _levelled(counts: np.ndarray, given: int) -> np.ndarray:
    """`given` rows added one by one, each to the expert that has the fewest."""
    low, high = int(counts.min()), int(counts.max()) + given
    while low < high:  # the highest level that `given` rows reach everywhere
        level = -(-(low + high) // 2)
        low, high = (level, high) if np.maximum(level - counts, 0).sum() <= given else (low, level - 1)
    raised = np.maximum(counts, low)
    lowest = np.flatnonzero(raised == low)[: given - int((raised - counts).sum())]
    raised[lowest] += 1
    return raised
