"""What problems of attention share: sizes of heads and tokens, how they are written, what they must keep to."""

import re
from dataclasses import dataclass
from typing import ClassVar, Self

from ..errors import UserError
from .problem import KernelProblem, parse_dimension

SHAPE = re.compile(r"(\d+)[x,*](\d+)(?:/(\d+))?[x,*](\d+)(?::(\d+))?[x,*](\d+)(?:/(\d+))?", re.IGNORECASE)


@dataclass(frozen=True)
class HeadsProblem(KernelProblem):
    """Queries of several heads over keys and values of as many heads or fewer.

    Attributes:
        KEYS_NEEDED: whether a shape must say how many keys there are; else they are the queries' tokens.
        batch: sequences.
        heads, kv_heads: of queries, and of keys and values; the one is a multiple of the other.
        q_tokens: queries a sequence.
        kv_tokens: keys a sequence, those of the queries included.
        head_dim, v_dim: of queries and keys, and of values.
    """

    SIZES: ClassVar[tuple[str, ...]] = ("batch", "heads", "kv_heads", "q_tokens", "kv_tokens", "head_dim", "v_dim")
    FORM: ClassVar[str]
    EXAMPLE: ClassVar[str]
    KEYS_NEEDED: ClassVar[bool] = False

    batch: int
    heads: int
    kv_heads: int
    q_tokens: int
    kv_tokens: int
    head_dim: int
    v_dim: int

    @classmethod
    def read_shape(cls, text: str) -> dict[str, int]:
        """The sizes in BxH[/KVH]xQ[:KV]xD[/DV]."""
        found = SHAPE.fullmatch(text.strip())
        if found is None or (cls.KEYS_NEEDED and found[5] is None):
            raise UserError(
                f"shape {text!r} is no {cls.NAME}: write {cls.FORM}, batch x heads/KV heads x queries:keys x head "
                f"dim/value head dim, e.g. {cls.EXAMPLE}"
            )
        batch, heads, kv_heads, q_tokens, kv_tokens, head_dim, v_dim = found.groups()
        parts = (batch, heads, kv_heads or heads, q_tokens, kv_tokens or q_tokens, head_dim, v_dim or head_dim)
        return {name: parse_dimension(name, part, text) for name, part in zip(cls.SIZES, parts, strict=True)}

    def checked(self) -> Self:
        """See `Problem.checked`; also KV heads divide heads, and queries are among the keys."""
        super().checked()
        if self.heads % self.kv_heads:
            raise UserError(
                f"heads = {self.heads} in shape {self.shape!r} is no multiple of kv_heads = {self.kv_heads}: every KV "
                "head serves as many"
            )
        if self.q_tokens > self.kv_tokens:
            raise UserError(
                f"q_tokens = {self.q_tokens} in shape {self.shape!r} is above kv_tokens = {self.kv_tokens}: queries "
                "are among the keys; write Q:KV with KV at least Q"
            )
        return self

    @property
    def shape(self) -> str:
        """As the command line writes it, without what is equal and need not be said."""
        heads = str(self.heads) + (f"/{self.kv_heads}" if self.kv_heads != self.heads else "")
        keys = self.KEYS_NEEDED or self.kv_tokens != self.q_tokens
        tokens = str(self.q_tokens) + (f":{self.kv_tokens}" if keys else "")
        dims = str(self.head_dim) + (f"/{self.v_dim}" if self.v_dim != self.head_dim else "")
        return f"{self.batch}x{heads}x{tokens}x{dims}"
