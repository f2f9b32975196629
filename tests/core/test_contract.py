"""The contract holds for every registered task, and catches every fault that it is there to catch."""

import hashlib

import numpy as np
import pytest

from neophyte.core import registry
from neophyte.core.contract import ContractError, Field, certify, check_task, fingerprint
from neophyte.core.registry import Task

LENGTH, HIGH = 6, 1000


@pytest.mark.parametrize("task", registry.tasks(), ids=lambda task: task.name)
def test_every_registered_task_keeps_the_contract(task):
    check_task(task, samples=6)


class Dataset:
    """A data set that keeps the contract; the classes below break it, each in one way."""

    made = 0

    def __init__(self, split, seed):
        self.split, self.seed = split, seed
        Dataset.made += 1

    def __len__(self):
        return 600

    def fields(self):
        return {"tokens": Field(np.dtype(np.uint16), (LENGTH,), 0, HIGH - 1)}

    def item(self, index):
        return self.draw(self.split, self.seed, index)

    @staticmethod
    def draw(*address):
        digest = hashlib.sha256(repr(address).encode()).digest()
        return np.frombuffer(digest, dtype="<u4")[:LENGTH] % HIGH

    def arrays(self, indices, threads=1):
        return {"tokens": np.stack([self.item(int(index)) for index in indices]).astype(np.uint16)}

    def losses(self, indices):
        return {"oracle": np.full(len(indices), 1.0), "control": np.full(len(indices), 2.0)}

    def canonical(self, indices, threads=1):
        return self.arrays(indices)["tokens"]


def change(size=1):
    if not 1 <= size <= 9:
        raise ValueError(f"size is {size}; allowed: [1, 9]")


def task(dataset=Dataset, change=change, name="fake/task@1"):
    return Task(name, "a fake", "train", load=dataset, change=change, refusals={"size": {"size": 0}})


class Clock(Dataset):
    def item(self, index):
        return self.draw(self.made, index)


class SeedPlusIndex(Dataset):
    def item(self, index):
        return self.draw(self.split, self.seed + index)


class IndexMinusSeed(Dataset):
    def item(self, index):
        return self.draw(self.split, index - self.seed)


class NoSeed(Dataset):
    def item(self, index):
        return self.draw(self.split, index)


class NoSplit(Dataset):
    def item(self, index):
        return self.draw(self.seed, index)


class BatchMates(Dataset):
    def arrays(self, indices, threads=1):
        tokens = super().arrays(indices)["tokens"]
        return {"tokens": tokens // tokens.max()}


class OrderOfAccess(Dataset):
    def arrays(self, indices, threads=1):
        arrays = super().arrays(indices)
        if indices[0] > indices[-1]:
            arrays["tokens"][0] = 0
        return arrays


class Threads(Dataset):
    def arrays(self, indices, threads=1):
        arrays = super().arrays(indices)
        if threads == 3:
            arrays["tokens"][-1] = arrays["tokens"][0]
        return arrays


class TooHigh(Dataset):
    def fields(self):
        return {"tokens": Field(np.dtype(np.uint16), (LENGTH,), 0, HIGH // 2)}


class TooLow(Dataset):
    def fields(self):
        return {"tokens": Field(np.dtype(np.uint16), (LENGTH,), HIGH // 2, HIGH)}


class WrongDtype(Dataset):
    def fields(self):
        return {"tokens": Field(np.dtype(np.int32), (LENGTH,), 0, HIGH)}


class WrongShape(Dataset):
    def fields(self):
        return {"tokens": Field(np.dtype(np.uint16), (LENGTH + 1,), 0, HIGH)}


class Undeclared(Dataset):
    def arrays(self, indices, threads=1):
        return {**super().arrays(indices), "answers": np.zeros(len(indices))}


class WorseOracle(Dataset):
    def losses(self, indices):
        return {"oracle": np.full(len(indices), 2.1), "control": np.full(len(indices), 2.0)}


class NoControl(Dataset):
    def losses(self, indices):
        return {"oracle": np.full(len(indices), 1.0)}


class NoOracle(Dataset):
    def losses(self, indices):
        return {"control": np.full(len(indices), 1.0), "other": np.full(len(indices), 1.0)}


class InfiniteLoss(Dataset):
    def losses(self, indices):
        return {"oracle": np.full(len(indices), 1.0), "control": np.full(len(indices), np.inf)}


def test_a_good_data_set_keeps_the_contract():
    check_task(task())


@pytest.mark.parametrize(
    ("dataset", "clause"),
    [
        (Clock, "two data sets of one address differ"),
        (SeedPlusIndex, "seed 1 gives the samples of seed 0"),
        (IndexMinusSeed, "seed 1 is seed 0 shifted by one"),
        (NoSeed, "seed 1 gives the samples of seed 0"),
        (NoSplit, "another split gives the same samples"),
        (BatchMates, "a sample depends on its batch"),
        (OrderOfAccess, "a sample depends on the order of access"),
        (Threads, "a sample depends on 3 threads"),
        (TooHigh, "tokens leaves its declared range"),
        (TooLow, "tokens leaves its declared range"),
        (WrongDtype, "tokens has dtype uint16, declared int32"),
        (WrongShape, r"tokens has shape \(6,\), declared \(7,\)"),
        (Undeclared, r"declares \['tokens'\] but returns \['answers', 'tokens'\]"),
        (WorseOracle, "the control control .* beats the oracle"),
        (NoControl, "has no oracle or no control"),
        (NoOracle, "has no oracle or no control"),
        (InfiniteLoss, "the loss of control is not finite"),
    ],
)
def test_a_broken_data_set_is_caught(dataset, clause):
    with pytest.raises(ContractError, match=rf"fake/task@1: {clause}"):
        check_task(task(dataset))


def test_a_spec_that_accepts_anything_is_caught():
    with pytest.raises(ContractError, match=r"accepts \{'size': 0\}"):
        check_task(task(change=dict))


def test_a_refusal_that_does_not_name_the_field_is_caught():
    def vague(**changes):
        raise ValueError("no")

    with pytest.raises(ContractError, match="without naming size: no"):
        check_task(task(change=vague))


def test_a_fingerprint_is_of_every_byte_name_type_and_shape():
    class OneByte(Dataset):
        def arrays(self, indices, threads=1):
            arrays = super().arrays(indices)
            arrays["tokens"][-1, -1] ^= 1
            return arrays

    class Wider(Dataset):
        def arrays(self, indices, threads=1):
            return {"tokens": super().arrays(indices)["tokens"].astype(np.uint32)}

    class Renamed(Dataset):
        def arrays(self, indices, threads=1):
            return {"words": super().arrays(indices)["tokens"]}

    class Flat(Dataset):
        def arrays(self, indices, threads=1):
            return {"tokens": super().arrays(indices)["tokens"].reshape(-1)}

    class BigEndian(Dataset):
        def arrays(self, indices, threads=1):
            return {"tokens": super().arrays(indices)["tokens"].astype(">u2")}

    assert fingerprint(task()) == fingerprint(task(BigEndian))
    others = [fingerprint(task(dataset)) for dataset in (Dataset, OneByte, Wider, Renamed, Flat)]
    assert len({*others, fingerprint(task(), 3)}) == 6


class Overlapping(Dataset):
    """The second split holds three samples of the first one, one of them twice, and repeats one of its own."""

    def item(self, index):
        shared = {0: 599, 300: 0, 301: 0, 599: 17}
        if self.split == "second":
            index = {10: 9}.get(index, index)
            if index in shared:
                return self.draw("first", self.seed, shared[index])
        return super().item(index)


def test_certify_finds_what_two_splits_share():
    steps = []
    found = certify(task(Overlapping), ("first", "second"), progress=steps.append)
    assert (found.shared, found.repeated) == (4, (0, 2))
    assert not found.disjoint
    assert found.complete
    assert found.checked == found.sizes == (600, 600)
    assert sum(steps) == 1200


def test_certify_of_a_part_does_not_claim_the_whole():
    found = certify(task(Overlapping), ("first", "second"), limit=250)
    # Sample 0 of the second split is the last of the first one, which was not checked.
    assert (found.shared, found.disjoint, found.complete) == (0, True, False)
    assert found.checked == (250, 250)


def test_certify_reports_disjoint_splits():
    found = certify(task(), ("first", "second"), seed=3)
    assert found.disjoint
    assert found.complete
    assert found.repeated == (0, 0)
    assert found.tasks == ("fake/task@1", "fake/task@1")


def test_certify_compares_all_samples_of_a_seed():
    class Reseeded(Dataset):
        def item(self, index):
            return self.draw(self.split if self.seed == 0 else "same", index)

    assert certify(task(Reseeded), ("first", "second"), seed=0).shared == 0
    assert certify(task(Reseeded), ("first", "second"), seed=1).shared == 600


def test_certify_refuses_one_split():
    with pytest.raises(ValueError, match=r"splits is .*; allowed: two different names"):
        certify(task(), ("first", "first"))


def test_certify_compares_two_tasks():
    class Apart(Dataset):
        def item(self, index):
            return self.draw("apart", index)

    found = certify(task(), ("first", "first"), other=task(Apart, name="fake/other@1"))
    assert (found.tasks, found.splits) == (("fake/task@1", "fake/other@1"), ("first", "first"))
    assert found.disjoint
    same = certify(task(), ("first", "first"), other=task(name="fake/other@1"))
    assert same.shared == 600


def test_certify_refuses_samples_of_another_form():
    train, other = registry.get("metalang/train"), registry.get("metalang/tiny-eval")
    with pytest.raises(ValueError, match=r"task is 'metalang/tiny-eval@1', with samples .*256.*; allowed: .*4096"):
        certify(train, ("train", "eval"), other=other)


def test_certify_works_on_the_training_and_the_test_set():
    found = certify(
        registry.get("metalang/tiny-train"), ("train", "eval"), other=registry.get("metalang/tiny-eval"), limit=100
    )
    assert found.disjoint
    assert found.sizes == (65_536, 1536)


def test_certify_works_on_a_real_task():
    found = certify(registry.get("metalang/tiny-eval"), ("train", "eval"), limit=200, threads=2)
    assert found.disjoint
    assert found.checked == (200, 200)
    assert found.sizes == (1536, 1536)
