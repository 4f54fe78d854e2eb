"""The bar on a terminal: one line, redrawn. What does not fit is shortened, the bar first."""

from collections.abc import Callable, Sequence
from typing import Any, TextIO

BAR_COLUMNS, LEAST_BAR = 10, 3


def fitted(share: float, texts: Sequence[str], columns: int, marks: tuple[str, str] = ("━", "─")) -> str:
    """The line for a terminal of so many columns: a bar where there is room for one, and the longest text that fits.

    Args:
        share: done, 0 to 1.
        texts: the same said ever shorter; the last is cut where it is too long still.
        columns: of the terminal.
        marks: a column that is done, and one that is not.
    """
    text = next((text for text in texts if len(text) <= columns), texts[-1][:columns])
    room = min(BAR_COLUMNS, columns - len(text) - 1)
    if room < LEAST_BAR:
        return text
    done = int(share * room)
    return f"{marks[0] * done}{marks[1] * (room - done)} {text}"


def rich_bar(stream: TextIO, gone: Callable[[], None]) -> tuple[Any, Any]:
    """A display of Rich and its task, whose fields are the `share` and the `texts` of `fitted`.

    Args:
        stream: the terminal.
        gone: called where nobody reads it any more.
    """
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn, Task
    from rich.text import Text

    class Patient(Console):
        def on_broken_pipe(self) -> None:  # Rich would end the process, and its standard output first
            gone()

    class Line(ProgressColumn):
        def render(self, task: Task) -> Text:
            marks = ("━", "─") if console.encoding.startswith("utf") else ("=", "-")
            text = fitted(task.fields["share"], task.fields["texts"], console.width, marks)
            return Text(text, no_wrap=True, overflow="crop")

    console = Patient(file=stream)
    display = Progress(Line(), console=console, transient=True)
    return display, display.add_task("", total=None, share=0.0, texts=["starting"])
