"""Work shared out among threads: every part once, no more threads than asked for, errors raised."""

import os
import signal
import threading
import time
import warnings

import pytest

from neophyte.core.threads import in_threads


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("least", [1, 5])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 8, 9, 10, 11, 1000])
def test_every_part_is_done_once(size, least, threads):
    parts = []  # appending is atomic
    in_threads(parts.append, size, threads, least=least)
    assert sorted(index for part in parts for index in range(size)[part]) == list(range(size))
    assert all(part.step is None for part in parts)
    lengths = [part.stop - part.start for part in parts]
    assert sum(length < least for length in lengths) <= 1  # what is left over
    if size >= 2 * least and threads > 1:
        assert max(lengths) <= max(size / (2 * threads), least)


@pytest.mark.parametrize(("size", "threads", "least"), [(10, 1, 1), (1, 1, 1), (1, 4, 1), (99, 4, 50)])
def test_one_part_is_done_in_this_thread(size, threads, least):
    seen = []
    in_threads(lambda part: seen.append((part, threading.current_thread())), size, threads, least=least)
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

    for _ in range(3):
        in_threads(work, 100, threads)
    assert 2 <= most[0] <= threads
    assert len(workers) <= threads  # the same ones each time
    assert threading.get_ident() in workers


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_is_raised_after_all_threads_have_stopped(threads):
    working = []

    def work(part):
        working.append(part)
        time.sleep(0.01)
        working.remove(part)
        if part.start <= 50 < part.stop:
            raise ValueError("the part with 50")

    with pytest.raises(ValueError, match="the part with 50"):
        in_threads(work, 100, threads)
    assert not working


def test_calls_from_several_threads_and_from_within_one_another_end():
    counted = []

    def outer(part):
        in_threads(lambda inner: counted.extend(range(part.start, part.stop) if inner.start == 0 else ()), 10, 2)

    callers = [threading.Thread(target=in_threads, args=(outer, 20, 2)) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(20)
    assert sorted(counted) == sorted(list(range(20)) * 4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_threads_of_its_own():
    in_threads(lambda part: time.sleep(0.01), 10, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, which is the point
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        parts = []
        in_threads(parts.append, 10, 2)
        os._exit(0 if sum(part.stop - part.start for part in parts) == 10 else 1)
    assert os.waitpid(child, 0)[1] == 0
