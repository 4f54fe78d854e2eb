"""What is served: how long prompts and answers are, drafts that are verified, limits that must be kept."""

import math
from dataclasses import dataclass

from ..errors import UserError, unknown

PHASES = ("serve", "decode", "prefill")
LONGEST = 2**20


@dataclass(frozen=True)
class Workload:
    """Requests that all look alike.

    Attributes:
        input_tokens: of a prompt.
        output_tokens: of an answer.
        cached_tokens: of a prompt, those that are in the cache when it comes (a prefix shared with others).
        phase: "serve": both on the same GPUs; "decode" or "prefill": one of them alone.
        draft_tokens: that are drafted and verified in each decode step; 0: no speculative decoding.
        acceptance: chance that a drafted token is right, the ones before it being right.
        draft_layers: layers of the model that one drafted token costs, beside the output projection.
        ttft_max_s, tpot_max_s: limits on the time to the first token, and a token; infinite: none.

    Raises:
        UserError: a number that is not allowed.
    """

    input_tokens: int = 2048
    output_tokens: int = 512
    cached_tokens: int = 0
    phase: str = "serve"
    draft_tokens: int = 0
    acceptance: float = 0.0
    draft_layers: float = 1.0
    ttft_max_s: float = math.inf
    tpot_max_s: float = math.inf

    def __post_init__(self) -> None:
        for name, least in (("input_tokens", 1), ("output_tokens", 1), ("cached_tokens", 0), ("draft_tokens", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LONGEST:
                raise UserError(f"{name} = {value!r} is not allowed: a whole number from {least} to {LONGEST}")
        if self.cached_tokens >= self.input_tokens:
            raise UserError(
                f"cached_tokens = {self.cached_tokens} is not allowed: fewer than the {self.input_tokens} input_tokens"
            )
        if self.phase != "prefill" and 0 < self.output_tokens <= self.draft_tokens:
            raise UserError(
                f"draft_tokens = {self.draft_tokens} is not allowed: fewer than {self.output_tokens} output_tokens, "
                "a step gives no more tokens than an answer has"
            )
        if not 0.0 <= self.acceptance <= 1.0:
            raise UserError(f"acceptance = {self.acceptance} is not allowed: a chance, 0 to 1")
        if self.acceptance and not self.draft_tokens:
            raise UserError(f"acceptance = {self.acceptance} needs draft_tokens: say how many tokens are drafted")
        if not 0.0 <= self.draft_layers < math.inf:
            raise UserError(f"draft_layers = {self.draft_layers} is not allowed: a number from 0")
        for name in ("ttft_max_s", "tpot_max_s"):
            if not getattr(self, name) > 0.0:
                raise UserError(f"{name} = {getattr(self, name)} is not allowed: a number above 0")
        if self.phase not in PHASES:
            raise unknown("phase", self.phase, PHASES)

    @property
    def new_tokens(self) -> int:
        """Of a prompt, those that must be prefilled."""
        return self.input_tokens - self.cached_tokens

    @property
    def tokens_a_step(self) -> float:
        """Tokens that a decode step adds to a sequence in the mean: the accepted drafts and one more."""
        return sum(self.acceptance**place for place in range(self.draft_tokens + 1))

    @property
    def context(self) -> int:
        """Keys of a decoded sequence in the mean, those of the step's own queries included."""
        return self.input_tokens + (self.output_tokens + 1) // 2 + self.draft_tokens

    @property
    def longest(self) -> int:
        """Keys of a sequence at its end."""
        return self.input_tokens + self.output_tokens
