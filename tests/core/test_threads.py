"""Work shared out among threads: every part once, no more threads than asked for, errors raised."""

import threading
import time

import pytest

from neophyte.core.threads import in_threads


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 8, 9, 1000])
def test_every_part_is_done_once(size, threads):
    parts = []  # appending is atomic
    in_threads(parts.append, size, threads)
    assert sorted(index for part in parts for index in range(size)[part]) == list(range(size))
    assert all(part.step is None for part in parts)
    assert len(parts) <= 4 * threads
    if size and threads > 1:
        assert max(part.stop - part.start for part in parts) - min(part.stop - part.start for part in parts) <= 1


@pytest.mark.parametrize(("size", "threads"), [(10, 1), (1, 1), (1, 4)])
def test_one_part_is_done_in_this_thread(size, threads):
    seen = []
    in_threads(lambda part: seen.append((part, threading.current_thread())), size, threads)
    assert seen == [(slice(0, size), threading.current_thread())]


@pytest.mark.parametrize("threads", [2, 3])
def test_so_many_threads_work_and_no_more(threads):
    lock, working, most, workers = threading.Lock(), [0], [0], set()

    def work(part):
        with lock:
            working[0] += 1
            most[0] = max(most[0], working[0])
            workers.add(threading.get_ident())
        time.sleep(0.02)
        with lock:
            working[0] -= 1

    in_threads(work, 100, threads)
    assert 2 <= most[0] <= threads
    assert len(workers) <= threads
    assert threading.get_ident() not in workers


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_is_raised_and_no_thread_is_left(threads):
    before = threading.active_count()

    def work(part):
        if part.start <= 50 < part.stop:
            raise ValueError("the part with 50")

    with pytest.raises(ValueError, match="the part with 50"):
        in_threads(work, 100, threads)
    assert threading.active_count() == before
