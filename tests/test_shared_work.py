"""Work that threads share: every item once, and an end as soon as a thread or the one that waits meets an error."""

import threading
import time

import pytest

from dse.shared_work import share_work


@pytest.mark.parametrize("workers", [1, 4, None])
def test_every_item_is_taken_once(workers: int | None) -> None:
    taken: list[int] = []
    share_work(iter(range(1000)), lambda item, stopped: taken.append(item), lambda: None, workers)
    assert sorted(taken) == list(range(1000))


def test_the_first_error_ends_the_others_and_is_raised() -> None:
    taken: list[int] = []

    def do(item: int, stopped) -> None:
        if item == 3:
            raise ValueError("three")
        taken.append(item)
        while item > 3 and not stopped():
            time.sleep(0.001)

    with pytest.raises(ValueError, match="three"):
        share_work(range(10**9), do, lambda: None, workers=3)
    assert len(taken) < 100


def test_an_error_of_the_items_and_an_early_end_of_one_are_errors() -> None:
    def broken():
        yield 1
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        share_work(broken(), lambda item, stopped: None, lambda: None, workers=2)
    with pytest.raises(StopIteration):
        share_work([1], lambda item, stopped: next(iter([])), lambda: None, workers=1)


def test_an_interrupt_while_waiting_ends_all_threads() -> None:
    before = threading.active_count()

    def show() -> None:
        raise KeyboardInterrupt

    def do(item: int, stopped) -> None:
        while not stopped():
            time.sleep(0.001)

    with pytest.raises(KeyboardInterrupt):
        share_work(range(8), do, show, workers=4)
    assert threading.active_count() == before
