"""Batches: the same for every number of workers, disjoint between ranks, resumed from one integer; the prefetcher."""

import itertools
import json
import pickle
import threading
import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from neophyte import metalang
from neophyte.core.shards import StoredArrays
from neophyte.metalang import CorpusSpec, TextCorpus
from neophyte.metalang.storage import generate
from neophyte.training.data import Prefetcher, TokenDataset, TokenStream, draw_tokens

from .sources import BothRanks, Numbers

SPEC = CorpusSpec(orders=(1, 2), context_length=12, pilot_tokens=256, num_sequences=40)
DEADLINE_SECONDS = 60.0


# Four workers are more than some machines have cores, which torch warns of.
more_workers_than_cores = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def loader(dataset, workers, **options):
    context = "spawn" if workers else None
    return DataLoader(dataset, num_workers=workers, multiprocessing_context=context, **options)


@more_workers_than_cores
@pytest.mark.parametrize("workers", [0, 1, 4])
def test_a_stream_is_the_same_for_every_number_of_workers(workers):
    ranks = [TokenStream(Numbers(), 3, rank=rank, world_size=2) for rank in range(2)]
    for stream in ranks:
        stream.load_state_dict({"position": 2})
    batches = torch.stack(list(itertools.islice(loader(BothRanks(ranks), workers, batch_size=None), 9)))
    # Steps 2 to 10 of two ranks, three sequences each: interleaved they are the source in order.
    np.testing.assert_array_equal(batches[..., 0].flatten().numpy(), np.arange(2 * 6, 11 * 6))
    assert batches.shape == (9, 2, 3, 2)
    assert batches.dtype == torch.int64


@more_workers_than_cores
@pytest.mark.parametrize("workers", [0, 4])
def test_a_dataset_is_the_same_for_every_number_of_workers(workers):
    batches = list(loader(TokenDataset(Numbers()), workers, batch_size=70))
    np.testing.assert_array_equal(torch.cat(batches)[:, 0].numpy(), np.arange(1000))
    assert [len(batch) for batch in batches] == [70] * 14 + [20]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_corpus_is_the_same_in_a_workers_process(workers):
    stream = TokenStream(metalang.corpus(SPEC), 3)
    batches = torch.cat(list(itertools.islice(loader(stream, workers, batch_size=None), 6)))
    np.testing.assert_array_equal(batches.numpy(), metalang.corpus(SPEC).batch(np.arange(18)).tokens)


def test_a_data_set_ends_where_its_source_does():
    data = TokenDataset(metalang.corpus(SPEC))
    assert len(list(data)) == len(data) == 40
    for index in (40, -1):
        with pytest.raises(IndexError, match=rf"index is {index}; allowed: \[0, 40\)"):
            data[index]


def test_a_finite_source_begins_again():
    text = TextCorpus(context_length=100).first(5)
    batches = torch.cat(list(itertools.islice(TokenStream(text, 3), 4)))
    np.testing.assert_array_equal(batches.numpy(), text.batch([0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]))


def test_a_corpus_streams_from_a_copy():
    # A worker's copy comes by pickle.
    corpus = metalang.corpus(SPEC)
    stream = pickle.loads(pickle.dumps(TokenStream(corpus, 9)))
    batches = list(itertools.islice(loader(stream, 0, batch_size=None), 6))
    # Beyond the set's 40 sequences too.
    np.testing.assert_array_equal(torch.cat(batches).numpy(), corpus.batch(np.arange(54)).tokens)


def test_a_dataset_draws_what_its_source_holds(tmp_path):
    corpus = metalang.corpus(SPEC)
    generate(corpus, tmp_path / "data", shard_size=16)
    text = TextCorpus(context_length=12)
    for source in (corpus, StoredArrays(tmp_path / "data"), text.first(40)):
        dataset = TokenDataset(source)
        assert len(dataset) == 40
        expected = draw_tokens(source, range(40))
        assert torch.equal(dataset[17], torch.from_numpy(expected[17].astype(np.int64)))
        shuffled = loader(dataset, 0, batch_size=8, shuffle=True, generator=torch.Generator().manual_seed(1))
        rows = np.concatenate([batch.numpy() for batch in shuffled])
        assert rows.dtype == np.int64
        assert not np.array_equal(rows, expected)
        assert sorted(map(bytes, rows.astype(np.uint8))) == sorted(map(bytes, expected.astype(np.uint8)))


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 6), st.integers(0, 50))
def test_ranks_are_disjoint_and_cover_everything(batch_size, world_size, steps, start):
    drawn = []
    for rank in range(world_size):
        stream = TokenStream(Numbers(), batch_size, rank=rank, world_size=world_size)
        stream.load_state_dict({"position": start})
        drawn += [batch[:, 0].tolist() for batch in itertools.islice(stream, steps)]
    assert all(len(batch) == batch_size for batch in drawn)
    first = start * batch_size * world_size
    assert sorted(itertools.chain(*drawn)) == list(range(first, first + steps * batch_size * world_size))


def test_the_whole_batch_of_all_ranks_is_that_of_one_process():
    alone = TokenStream(Numbers(), 6).draw(5)
    parts = [TokenStream(Numbers(), 2, rank=rank, world_size=3).draw(5) for rank in range(3)]
    np.testing.assert_array_equal(np.concatenate(parts), alone)


@pytest.mark.parametrize("taken", [0, 1, 5])
def test_one_integer_resumes_exactly(taken):
    stream = TokenStream(Numbers(), 4, rank=1, world_size=3)
    for _ in itertools.islice(stream, taken):
        pass
    state = json.loads(json.dumps(stream.state_dict()))
    assert state == {"position": taken}
    fresh = TokenStream(Numbers(), 4, rank=1, world_size=3)
    fresh.load_state_dict(state)
    rest = [batch[0, 0].item() for batch in itertools.islice(fresh, 3)]
    assert rest == [(step * 3 + 1) * 4 for step in range(taken, taken + 3)]
    assert fresh.state_dict() == {"position": taken + 3}
    # And the stream itself goes on where it stopped.
    assert [batch[0, 0].item() for batch in itertools.islice(stream, 3)] == rest


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"rank": 2, "world_size": 2}, "rank"),
        ({"rank": -1}, "rank"),
        ({"world_size": 0}, "world_size"),
    ],
)
def test_bad_streams_are_refused(arguments, field):
    with pytest.raises(ValueError, match=f"{field} is"):
        TokenStream(Numbers(), **{"batch_size": 1, **arguments})


def test_a_bad_position_is_refused():
    with pytest.raises(ValueError, match="position is -1"):
        TokenStream(Numbers(), 1).load_state_dict({"position": -1})


class Maker:
    """Makes squares, notes its calls, and fails at one step."""

    def __init__(self, fails_at=None, error=RuntimeError):
        self.fails_at, self.error = fails_at, error
        self.steps, self.threads = [], set()

    def __call__(self, step):
        self.steps.append(step)
        self.threads.add(threading.get_ident())
        if step == self.fails_at:
            raise self.error(f"step {step} failed")
        return step * step


def until(condition):
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


@pytest.mark.parametrize(("start", "stop"), [(0, 20), (7, 9), (3, 3)])
def test_a_prefetcher_gives_all_in_order(start, stop):
    maker = Maker()
    batches = Prefetcher(maker, start, stop)
    assert list(batches) == [step * step for step in range(start, stop)]
    assert maker.steps == list(range(start, stop))
    assert threading.get_ident() not in maker.threads
    batches.close()


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a_prefetcher_is_a_few_steps_ahead_and_no_more(depth):
    maker = Maker()
    batches = Prefetcher(maker, 0, 1000, depth)
    taken = list(itertools.islice(batches, 3))
    until(lambda: len(maker.steps) == 3 + depth + 1)
    time.sleep(0.3)  # Time to go on, if it wrongly did.
    assert taken == [0, 1, 4]
    assert len(maker.steps) == 3 + depth + 1
    batches.close()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_comes_out_where_its_batch_would(error):
    before = threading.active_count()
    batches, got = Prefetcher(Maker(4, error), 0, 10), []
    with pytest.raises(error, match="step 4 failed"):
        got.extend(itertools.chain(batches))
    assert got == [0, 1, 4, 9]
    batches.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("taken", [0, 2])
def test_closing_ends_the_thread_at_once(taken):
    before = threading.active_count()
    maker = Maker()
    batches = Prefetcher(maker, 0, 10**9)
    for _ in itertools.islice(batches, taken):
        pass
    until(lambda: len(maker.steps) > taken + 2)
    start = time.monotonic()
    batches.close()
    assert time.monotonic() - start < DEADLINE_SECONDS
    assert threading.active_count() == before
    assert len(maker.steps) < 20
