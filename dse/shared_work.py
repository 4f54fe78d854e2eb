"""Work that threads share: each takes the next item, and the thread that waits for them shows how far they are.

JAX leaves Python's lock while it computes, so threads are enough for one machine.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

from .platform import usable_cores

SHOWN_EVERY_S = 0.1
Item = TypeVar("Item")


def share_work(
    items: Iterable[Item],
    do: Callable[[Item, Callable[[], bool]], None],
    show: Callable[[], None],
    workers: int | None = None,
) -> None:
    """Does something with every item, on several threads.

    Args:
        items: taken in order, each by a thread that is free; read by one thread at a time.
        do: called with an item, and with a function that says whether to stop: then what is left of it is of no use.
        show: called several times a second by the thread that calls this.
        workers: threads; None: one a usable core.

    Raises:
        BaseException: the first that `do` or `items` met, and what `show` raises, KeyboardInterrupt among them; all
            threads have ended then.
    """
    shared = _Shared(items, do)
    threads = [threading.Thread(target=shared.run, daemon=True) for _ in range(workers or usable_cores())]
    started = []
    try:
        for thread in threads:
            thread.start()
            started.append(thread)
        for thread in threads:
            while thread.is_alive():
                thread.join(SHOWN_EVERY_S)
                show()
    finally:
        shared.stop = True
        for thread in started:
            thread.join()
    if shared.failures:
        raise shared.failures[0]


class _Shared(Generic[Item]):
    def __init__(self, items: Iterable[Item], do: Callable[[Item, Callable[[], bool]], None]) -> None:
        self.waiting: Iterator[Item] = iter(items)
        self.do = do
        self.stop = False
        self.lock = threading.Lock()
        self.failures: list[BaseException] = []

    def run(self) -> None:
        try:
            while not self.stop and (taken := self._take()):
                self.do(taken[0], lambda: self.stop)
        except BaseException as error:
            self.failures.append(error)
            self.stop = True

    def _take(self) -> list[Item]:
        with self.lock:
            return list(islice(self.waiting, 1))
