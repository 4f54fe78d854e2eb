"""A schedule's text cut into words and values."""

import json
import re
from collections.abc import Callable
from typing import Any

from .errors import UserError


def split_words(text: str, example: Callable[[], str]) -> dict[str, Any]:
    """`a=1 b=2`, or a JSON object, as word -> value; the example is for messages.

    Raises:
        UserError: unreadable, or a word twice.
    """
    if text.strip().startswith("{"):
        try:
            return dict(json.loads(text))
        except ValueError as error:
            raise UserError(f"the schedule is not readable JSON: {error}") from None
    words: dict[str, Any] = {}
    for word in re.split(r"[\s;,]+", text.strip()):
        key, equals, value = word.partition("=")
        if not equals or not value:
            raise UserError(f"cannot read {word!r} in the schedule: write KEY=VALUE words, e.g. {example()}")
        if key in words:
            raise UserError(f"the schedule gives {key} twice: give it once")
        words[key] = value
    return words
