"""How fast work goes now: the rate that progress shows and from which it tells how long is left."""

from collections import deque

WINDOW_S = 10.0


class Pace:
    """A rate over the last `WINDOW_S`, from pairs of how much is done and when.

    What comes before the first progress, compilation above all, does not count: the clock starts when the first piece
    is done, and a rate is known from the second on. Where nothing has come for longer than the window, the rate of the
    last piece sinks as one waits for the next.
    """

    def __init__(self) -> None:
        self._seen: int | None = None  # what was done at the last call
        self._at_s = 0.0
        self._steps: deque[tuple[float, int]] = deque()  # when progress was seen, and how much was done then
        self._first: tuple[float, int] | None = None

    def rate(self, done: int, seconds: float) -> float:
        """Pieces a second in the window that ends now; 0: not known yet.

        Args:
            done: pieces; where fewer than before, other work has begun.
            seconds: of a clock that runs with the work; where less than before, likewise.
        """
        if self._seen is not None and (done < self._seen or seconds < self._at_s):
            self.__init__()
        if self._seen is not None and done > self._seen:
            self._steps.append((seconds, done))
            self._first = self._first or self._steps[0]
        self._seen, self._at_s = done, seconds
        while len(self._steps) > 2 and self._steps[1][0] <= seconds - WINDOW_S:
            self._steps.popleft()
        return _slope(self._steps[0], done, seconds) if len(self._steps) > 1 else 0.0

    def mean(self) -> float:
        """Pieces a second from the first that was done to the last call; 0: not known."""
        if self._first is None or self._seen is None:
            return 0.0
        return _slope(self._first, self._seen, self._at_s)


def _slope(since: tuple[float, int], done: int, seconds: float) -> float:
    return (done - since[1]) / max(seconds - since[0], 1e-9)
