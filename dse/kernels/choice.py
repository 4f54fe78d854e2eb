"""What a kernel lets users choose beside shape and type: names, meanings, allowed values; options are made of them."""

import re
from dataclasses import dataclass
from typing import Any

from ..errors import UserError, unknown

LISTED = 6  # words that a line of help lists
YES, NO = ("true", "yes", "1"), ("false", "no", "0")


@dataclass(frozen=True)
class Choice:
    """One attribute of a problem that users may set.

    Attributes:
        name: of the attribute of the problem, and of the argument in Python.
        text: one line for `--help`, without the words that are allowed and without the default.
        kind: bool, int, float or str.
        allowed: of a str: the words that are allowed; empty: any text, which the problem checks itself.
        least, most: of a number: both ends are allowed.
        noun: what an unknown word is called in messages; "": the name.
        spelled: the option, e.g. "--align"; "": the name with dashes.
    """

    name: str
    text: str
    kind: type = str
    allowed: tuple[str, ...] = ()
    least: float = 0
    most: float = 2**24 - 1
    noun: str = ""
    spelled: str = ""

    @property
    def option(self) -> str:
        """How the command line spells it: `--page-tokens`."""
        return self.spelled or f"--{self.name.replace('_', '-')}"

    def help(self, default: Any = None) -> str:
        """The line for `--help`: few enough words are listed, a default that is not None is said."""
        words = f": {', '.join(self.allowed)}" if 0 < len(self.allowed) <= LISTED else ""
        shown = str(default).lower() if isinstance(default, bool) else default
        said = default is None or "(default:" in self.text
        return f"{self.text}{words}" + ("" if said else f" (default: {shown})")

    def read(self, given: Any) -> Any:
        """The value of the attribute from what a user gave, as text or already of the kind.

        Raises:
            UserError: naming the choice, the value and what is allowed.
        """
        if given is None:
            return given
        if self.kind is bool:
            return self._truth(given)
        if self.kind is str:
            text = str(given)
            if self.allowed and text not in self.allowed:
                raise unknown(self.noun or self.name, text, self.allowed)
            return text
        return self._number(given)

    def _truth(self, given: Any) -> bool:
        text = str(given).strip().lower()
        if text not in YES + NO:
            raise UserError(f"{self.option} = {given!r} is neither true nor false: write true or false")
        return text in YES

    def _number(self, given: Any) -> Any:
        text = str(given).strip()
        whole = self.kind is int
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        readable = re.fullmatch(r"[+-]?\d+(\.0*)?", text) if whole else True
        if not readable or not self.least <= number <= self.most:
            what = "a whole number" if whole else "a number"
            raise UserError(
                f"{self.option} = {text} is not allowed: {what} from {_plain(self.least)} to {_plain(self.most)}"
            )
        return int(number) if whole else number


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:g}"
