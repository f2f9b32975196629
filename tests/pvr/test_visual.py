"""Visual tasks: a slow twin agrees byte for byte; any order, any batch; what is held out; the laws of the draws."""

import collections
import dataclasses
import functools
import itertools
import json
import pickle
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from neophyte.core.addressing import Space
from neophyte.core.contract import check_task
from neophyte.core.registry import Task
from neophyte.core.spec import change, digest, from_mapping, to_mapping
from neophyte.pvr.banks import load_bank
from neophyte.pvr.visual import VisualDataset, images
from neophyte.pvr.visual_spec import PRESETS, VisualSpec, preset

# Chance of a false alarm of each statistical test, had its fixed address been drawn at random.
ALARM = 1e-6

DIGITS = {"pointer_bank": "digits", "value_banks": ("digits",), "cell": 12}
HELD_OUT = ((1, 2, 3), (4, 5, 6), (7, 8, 9, 0))


@pytest.fixture(scope="session")
def bank_files(tmp_path_factory):
    """Small banks: grey (7 x 4, five classes), colour (6 x 6, ten), bits (3 x 3, two) and white (28 x 28, blank)."""
    folder, random = tmp_path_factory.mktemp("banks"), np.random.default_rng(0)
    shapes = {"grey": ((7, 4), 5), "colour": ((6, 6, 3), 10), "bits": ((3, 3), 2)}
    for name, (shape, classes) in shapes.items():
        pixels = random.integers(0, 256, (60, *shape), dtype=np.uint8)
        np.savez(folder / f"{name}.npz", X=pixels, Y=np.arange(60) * 7 % classes)
    np.savez(folder / "white.npz", X=np.full((60, 28, 28), 255, np.uint8), Y=np.arange(60) % 10)
    return {name: str(folder / f"{name}.npz") for name in (*shapes, "white")}


def kinds(files):
    """Specs that differ in everything that an example is made of."""
    grey, colour, bits = files["grey"], files["colour"], files["bits"]
    return {
        "iid": {},
        "test part": {"bank_part": "test"},
        "holdout": {"held_out": HELD_OUT, "part": "train"},
        "holdout test": {"held_out": HELD_OUT, "part": "test", "bank_part": "test"},
        "sequence": {"rows": 1, "columns": 11, "window": 3},
        "middle": {"rows": 3, "columns": 3, "pointer_cell": 4, "window": 4, "aggregation": "median", "median": "mean"},
        "upper": {"rows": 2, "columns": 3, "window": 4, "aggregation": "median", "median": "upper"},
        "lower": {"columns": 4, "window": 2, "aggregation": "median", "window_end": "truncate"},
        "mode": {"rows": 3, "columns": 3, "pointer_cell": 8, "window": 5, "aggregation": "maj_vote"},
        "mode first": {"rows": 3, "window": 4, "aggregation": "maj_vote", "mode_tie": "first"},
        "mode largest": {"rows": 3, "window": 4, "aggregation": "maj_vote", "mode_tie": "largest"},
        "min": {"rows": 3, "window": 2, "aggregation": "min", "window_end": "fit"},
        "max": {"rows": 3, "window": 3, "aggregation": "max", "window_end": "truncate"},
        "a map": {"pointer_map": (2, 0, 1, 2, 2, 2, 0, 0, 0, 1)},
        "middles": {"jitter": False, "cell": 13},
        "tight": {"cell": 8},
        "grey": {"value_banks": (grey,), "window": 2},
        "colour": {"value_banks": (colour,), "pointer_bank": grey, "cell": 7},
        "mix": {"value_banks": ("digits", grey, colour), "pointer_bank": bits},
        "colour pointer": {"value_banks": (grey, "digits", grey), "pointer_bank": colour, "jitter": False},
        "parity": {"rows": 3, "value_banks": (bits,), "window": 3, "aggregation": "parity"},
        "long": {"rows": 1, "columns": 20, "value_banks": (bits,), "cell": 8},
    }


KINDS = tuple(kinds(collections.defaultdict(str)))
each_kind = pytest.mark.parametrize("kind", KINDS)


def visual(kind, files, split="train", seed=0, **changes):
    return VisualDataset(VisualSpec(**{**DIGITS, **kinds(files)[kind], **changes}), split, seed)


# The twin: image by image, pixel by pixel, in plain Python.


@functools.cache
def block_words(space, stream, block, count):
    key = space.keys(stream, np.array([block]))[0]
    return [int(word) for word in np.random.Philox(key=key).random_raw(count)]


def aggregate(window, spec, num_classes):
    if spec.aggregation == "mod_sum":
        return sum(window) % num_classes
    if spec.aggregation == "median":
        middle = {"lower": statistics.median_low, "upper": statistics.median_high, "mean": statistics.median}
        return int(middle[spec.median](window))
    if spec.aggregation == "maj_vote":
        most = max(window.count(value) for value in window)
        modes = [value for value in window if window.count(value) == most]
        return {"smallest": min(modes), "largest": max(modes), "first": modes[0]}[spec.mode_tie]
    if spec.aggregation == "parity":
        return 1 - window.count(0) % 2  # of -1 for 0 and +1 for 1
    return {"min": min, "max": max}[spec.aggregation](window)


def twin(dataset, index, epoch=0):
    """Return image, label, classes, pointer and window of one example."""
    spec = dataset.spec
    cells = spec.rows * spec.columns
    values = [cell for cell in range(cells) if cell != spec.pointer_cell]
    names = dict(zip(values, spec.value_banks * (len(values) if len(spec.value_banks) == 1 else 1), strict=True))
    banks = [load_bank(names.get(cell, spec.pointer_bank), part=spec.bank_part) for cell in range(cells)]
    space = Space(f"{spec.identity}:{digest([bank.digest for bank in banks], 32)}", dataset.split, dataset.seed)
    channels = max(bank.images.shape[3] for bank in banks)
    image = np.zeros((spec.rows * spec.cell, spec.columns * spec.cell, channels), np.uint8)
    held = dict(zip(values, spec.held_out, strict=True)) if spec.part != "all" else {}
    block, place, classes = index // 256, index % 256, []
    for cell, bank in enumerate(banks):
        choices = [i for i, label in enumerate(bank.labels.tolist())
                   if cell not in held or (label in held[cell]) == (spec.part == "test")]  # fmt: skip
        word = block_words(space, "images", block, 256 * cells)[place * cells + cell]
        pick = choices[word * len(choices) >> 64]
        classes.append(int(bank.labels[pick]))
        height, width, depth = bank.images.shape[1:]
        rooms = spec.cell - height + 1, spec.cell - width + 1
        if spec.jitter:
            stream = f"offsets/{epoch}" if spec.redraw and epoch else "offsets"
            word = block_words(space, stream, block, 256 * cells)[place * cells + cell]
            down, rest = divmod(word * rooms[0], 2**64)
            across = rest * rooms[1] >> 64
        else:
            down, across = (rooms[0] - 1) // 2, (rooms[1] - 1) // 2
        top, left = cell // spec.columns * spec.cell + down, cell % spec.columns * spec.cell + across
        for i, j, k in itertools.product(range(height), range(width), range(channels)):
            image[top + i, left + j, k] = bank.images[pick, i, j, k if depth > 1 else 0]
    starts = len(values) - spec.window + 1 if spec.window_end == "fit" else len(values)
    evenly = [start for start, group in enumerate(np.array_split(range(banks[spec.pointer_cell].num_classes), starts))
              for _ in group]  # fmt: skip
    pointer = (spec.pointer_map or evenly)[classes[spec.pointer_cell]]
    window = []
    for position in range(pointer, pointer + spec.window):
        if position < len(values) or spec.window_end == "cyclic":
            window.append(classes[values[position % len(values)]])
    label = aggregate(window, spec, max(load_bank(name).num_classes for name in names.values()))
    return image, label, classes, pointer, window + [-1] * (spec.window - len(window))


INDICES = np.array([0, 1, 2, 255, 256, 700, 2**40 + 3])


@each_kind
def test_the_slow_twin_agrees_byte_for_byte(bank_files, kind):
    dataset = visual(kind, bank_files, split="somewhere", seed=5)
    found = dataset.batch(INDICES)
    assert found.images.dtype == found.labels.dtype == found.classes.dtype == np.uint8
    for row, index in enumerate(INDICES.tolist()):
        image, label, classes, pointer, window = twin(dataset, index)
        np.testing.assert_array_equal(found.images[row], image)
        assert found.labels[row] == label
        assert found.classes[row].tolist() == classes
        assert found.pointers[row] == pointer
        assert found.windows[row].tolist() == window
    assert found.images.shape[1:] == dataset.image_shape


@given(
    rows=st.integers(1, 4),
    columns=st.integers(2, 4),
    cell=st.integers(8, 11),
    pointer=st.integers(0, 3),
    window=st.integers(1, 3),
    end=st.sampled_from(("cyclic", "truncate", "fit")),
    aggregation=st.sampled_from(("mod_sum", "median", "maj_vote", "min", "max")),
    mixed=st.lists(st.sampled_from(("digits", "colour")), min_size=15, max_size=15),
    index=st.integers(0, 2**62),
    data=st.data(),
)
def test_the_slow_twin_agrees_on_any_spec(
    bank_files, rows, columns, cell, pointer, window, end, aggregation, mixed, index, data
):
    values = rows * columns - 1
    held = tuple(data.draw(st.sets(st.integers(0, 9), min_size=1, max_size=9)) for _ in range(values))
    spec = VisualSpec(
        rows=rows,
        columns=columns,
        cell=cell,
        pointer_cell=pointer % (values + 1),
        pointer_bank="digits",
        value_banks=tuple(bank_files.get(name, name) for name in mixed[:values]),
        window=min(window, values),
        window_end=end,
        aggregation=aggregation,
        held_out=tuple(map(tuple, held)),
        part=data.draw(st.sampled_from(("all", "train", "test"))),
    )
    dataset = VisualDataset(spec)
    found = dataset.batch([index])
    image, label, classes, start, _ = twin(dataset, index)
    np.testing.assert_array_equal(found.images[0], image)
    assert (found.labels[0], found.classes[0].tolist(), found.pointers[0]) == (label, classes, start)


# Addresses.


@functools.cache
def whole_of(kind, files):
    return visual(kind, dict(files)).batch(np.arange(300))


def assert_rows(found, whole, rows):
    for field in dataclasses.fields(found):
        np.testing.assert_array_equal(getattr(found, field.name), getattr(whole, field.name)[rows])


@given(st.sampled_from(KINDS), st.lists(st.integers(0, 299), min_size=1, max_size=30), st.integers(1, 5))
def test_an_example_depends_on_its_index_alone(bank_files, kind, indices, threads):
    whole = whole_of(kind, tuple(bank_files.items()))
    assert_rows(visual(kind, bank_files).batch(indices, threads=threads), whole, indices)


@pytest.mark.parametrize("kind", ["iid", "holdout", "mix"])
def test_items_streams_and_arrays_are_the_batch(bank_files, kind):
    dataset, whole = visual(kind, bank_files, num_examples=300), whole_of(kind, tuple(bank_files.items()))
    for index in (0, 17, 299, -1):
        image, label = dataset[index]
        np.testing.assert_array_equal(image, whole.images[index])
        assert (label, type(label)) == (whole.labels[index], int)
    with pytest.raises(IndexError, match=r"index is 300; allowed: \[0, 300\)"):
        dataset[300]
    stream = dataset.stream(7, start=5)
    assert_rows(next(stream), whole, slice(5, 12))
    assert_rows(next(stream), whole, slice(12, 19))
    arrays = dataset.arrays(np.arange(9), threads=2)
    np.testing.assert_array_equal(arrays["images"], whole.images[:9])
    np.testing.assert_array_equal(arrays["labels"], whole.labels[:9])
    np.testing.assert_array_equal(dataset.canonical(np.arange(9)), whole.images[:9])


def test_seeds_splits_and_specs_are_independent(bank_files):
    base = visual("iid", bank_files).batch(np.arange(50)).images
    others = {
        "seed": visual("iid", bank_files, seed=1),
        "split": visual("iid", bank_files, split="eval"),
        "window": visual("iid", bank_files, window=2),
        "bank part": visual("iid", bank_files, bank_part="test"),
    }
    for name, other in others.items():
        drawn = other.batch(np.arange(51)).images
        assert not (drawn[:50] == base).all(axis=(1, 2, 3)).any(), name
        assert not (drawn[1:] == base).all(axis=(1, 2, 3)).any(), name


def test_the_pixels_of_a_bank_are_part_of_the_address_and_its_path_is_not(bank_files, tmp_path):
    with np.load(bank_files["grey"]) as file:
        pixels, labels = file["X"], file["Y"]
    moved, altered = str(tmp_path / "moved.npz"), str(tmp_path / "altered.npz")
    np.savez(moved, X=pixels, Y=labels)
    pixels[0, 0, 0] ^= 1
    np.savez(altered, X=pixels, Y=labels)
    base, same, other = (
        visual("grey", bank_files, value_banks=(path,)) for path in (bank_files["grey"], moved, altered)
    )
    assert base.spec.identity == same.spec.identity == other.spec.identity
    assert base.bank_digests != other.bank_digests
    assert_rows(base.batch(INDICES), same.batch(INDICES), slice(None))
    assert (base.batch(np.arange(100)).classes != other.batch(np.arange(100)).classes).any(axis=1).sum() > 50


def test_extents_and_redrawing_are_no_part_of_the_address(bank_files):
    spec = VisualSpec(**DIGITS)
    assert spec.identity.startswith("pvr-images@1:")
    assert dataclasses.replace(spec, num_examples=7, redraw=True).identity == spec.identity
    assert dataclasses.replace(spec, value_banks=("digits",) * 3).identity == spec.identity
    changes = ({"window": 2}, {"cell": 13}, {"held_out": HELD_OUT}, {"bank_part": "test"}, {"pointer_bank": "mnist",
               "cell": 40}, {"jitter": False})  # fmt: skip
    assert len({dataclasses.replace(spec, **fields).identity for fields in changes} | {spec.identity}) == 7


def test_offsets_are_redrawn_in_each_epoch_when_asked(bank_files):
    fixed, redrawn = visual("iid", bank_files), visual("iid", bank_files, redraw=True)
    indices = np.arange(40)
    assert_rows(fixed.batch(indices, epoch=3), fixed.batch(indices), slice(None))
    epochs = [redrawn.batch(indices, epoch=epoch) for epoch in range(3)]
    assert_rows(epochs[0], fixed.batch(indices), slice(None))
    for one, other in itertools.combinations(epochs, 2):
        np.testing.assert_array_equal(one.classes, other.classes)
        np.testing.assert_array_equal(one.labels, other.labels)
        assert not (one.images == other.images).all(axis=(1, 2, 3)).any()
        # The same images, elsewhere.
        np.testing.assert_array_equal(one.images.sum(axis=(1, 2, 3)), other.images.sum(axis=(1, 2, 3)))
    np.testing.assert_array_equal(epochs[2].images[7], twin(redrawn, 7, epoch=2)[0])


def test_a_data_set_travels_light(bank_files):
    dataset = visual("mix", bank_files, split="eval", seed=3)
    packed = pickle.dumps(dataset)
    assert len(packed) < 3000
    assert_rows(pickle.loads(packed).batch(INDICES), dataset.batch(INDICES), slice(None))


# What is held out.


@pytest.mark.parametrize("pointer_cell", [0, 2])
def test_training_never_shows_what_is_held_out_and_the_test_shows_nothing_else(bank_files, pointer_cell):
    for part in ("train", "test"):
        dataset = visual("iid", bank_files, held_out=HELD_OUT, part=part, pointer_cell=pointer_cell)
        classes = dataset.batch(np.arange(20_000), threads=1).classes
        assert set(np.unique(classes[:, pointer_cell])) == set(range(10))
        for held, values in zip(HELD_OUT, np.delete(classes, pointer_cell, axis=1).T, strict=True):
            assert set(np.unique(values)) == (set(held) if part == "test" else set(range(10)) - set(held))


# Laws.


def assert_uniform(counts):
    assert stats.chisquare(counts).pvalue > ALARM


def test_every_cell_draws_its_banks_images_uniformly(bank_files):
    # The 1,297 digits, told apart by their pixels: 100 or so of each.
    dataset = visual("tight", bank_files)
    drawn = dataset.batch(np.arange(130_000)).images
    bank = load_bank("digits").images.reshape(1297, -1)
    known = {pixels.tobytes(): number for number, pixels in enumerate(bank)}
    assert len(known) == 1297
    for top, left in itertools.product((0, 8), (0, 8)):
        cells = np.ascontiguousarray(drawn[:, top : top + 8, left : left + 8]).reshape(len(drawn), -1)
        assert_uniform(np.bincount([known[pixels.tobytes()] for pixels in cells], minlength=1297))


def test_offsets_are_uniform_and_independent(bank_files):
    # A white 28 x 28 image in a cell of 40: its first lit row and column are its offset, 0 to 12 (paper, appendix A).
    dataset = visual("iid", bank_files, cell=40, pointer_bank=bank_files["white"], value_banks=(bank_files["white"],))
    parts = []
    for start in range(0, 40_000, 10_000):
        lit = dataset.batch(np.arange(start, start + 10_000)).images.reshape(-1, 2, 40, 2, 40) > 0
        down, across = lit.any(axis=4).argmax(axis=2), lit.any(axis=2).argmax(axis=3)
        parts.append(np.stack([down.reshape(-1, 4), across.reshape(-1, 4)], axis=2).reshape(-1, 8))
    found = np.concatenate(parts)
    assert found.max() == 12
    for column in range(8):
        assert_uniform(np.bincount(found[:, column], minlength=13))
    for one, other in itertools.combinations(range(8), 2):
        assert_uniform(np.bincount(found[:, one] * 13 + found[:, other], minlength=169))


def test_cells_are_independent_of_each_other(bank_files):
    dataset = visual("iid", bank_files)
    classes = dataset.batch(np.arange(60_000)).classes.astype(int)
    law = np.bincount(load_bank("digits").labels, minlength=10) / 1297
    for one, other in itertools.combinations(range(4), 2):
        counts = np.bincount(classes[:, one] * 10 + classes[:, other], minlength=100)
        assert stats.chisquare(counts, np.outer(law, law).reshape(-1) * len(classes)).pvalue > ALARM


@pytest.mark.parametrize("kind", ["iid", "holdout", "holdout test", "sequence", "min", "max", "lower", "mix", "parity"])
def test_the_law_of_the_label_is_exact(bank_files, kind):
    dataset = visual(kind, bank_files)
    law = dataset.label_law()
    assert law.shape == (dataset.num_classes,)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    counts = np.bincount(dataset.batch(np.arange(30_000)).labels, minlength=len(law))
    assert (counts[law == 0] == 0).all()
    assert stats.chisquare(counts[law > 0], law[law > 0] * 30_000).pvalue > ALARM


def test_the_law_of_the_label_by_hand(bank_files):
    # Holdout test: label 1 is where the pointer is 0-3 and the upper right, one of 1-3, is 1.
    bank = load_bank("digits", part="test")
    counts = np.bincount(bank.labels, minlength=10)
    expected = counts[:4].sum() / 500 * counts[1] / counts[1:4].sum()
    assert visual("holdout test", bank_files).label_law()[1] == pytest.approx(expected, abs=1e-12)


def test_the_law_of_long_windows_is_estimated(bank_files):
    law = visual("middle", bank_files, window=8).label_law()
    assert law.sum() == pytest.approx(1)
    assert law.argmax() in (3, 4, 5)


# The contract, the presets, the refusals.


@pytest.mark.parametrize("name", [name for name in PRESETS if name.startswith("digits")])
def test_presets_keep_the_contract(name):
    chosen = preset(name)
    check_task(
        Task(
            name=f"pvr/{name}@1",
            summary=chosen.summary,
            split=chosen.split,
            load=lambda split, seed: VisualDataset(chosen.spec, split, seed),
            change=functools.partial(dataclasses.replace, chosen.spec),
            refusals={
                "cell": {"cell": 7},
                "window": {"window": 0},
                "held_out": {"held_out": ((10,),) * chosen.spec.num_values, "part": "train"},
                "pointer_map": {"pointer_map": (0,)},
                "aggregation": {"aggregation": "sum"},
            },
        ),
        samples=40,
    )


def test_presets_are_the_papers():
    assert set(PRESETS) >= {f"{bank}-{kind}-{part}" for bank in ("mnist", "cifar10", "digits") for kind in
                            ("iid", "holdout") for part in ("train", "test")}  # fmt: skip
    for name, chosen in PRESETS.items():
        spec = chosen.spec
        assert (spec.bank_part, chosen.split) == (name.rsplit("-", 1)[1],) * 2
        assert from_mapping(VisualSpec, json.loads(json.dumps(to_mapping(spec)))) == spec
        if "sequence" in name:
            assert spec.starts(10) == tuple(range(10))
        else:
            assert spec.starts(10) == (0, 0, 0, 0, 1, 1, 1, 2, 2, 2)  # 0-3 upper right, 4-6 lower left, 7-9 lower right
        if "holdout" in name:
            assert [set(group) for group in spec.held_out] == [{1, 2, 3}, {4, 5, 6}, {7, 8, 9, 0}]
            assert spec.part == chosen.split
    spec = preset("cifar10-iid-train").spec
    assert (spec.pointer_bank, spec.value_banks, spec.cell) == ("mnist", ("cifar10",), 40)
    assert (VisualSpec().pointer_bank, VisualSpec().value_banks, VisualSpec().cell) == ("mnist", ("mnist",), 40)


def test_lists_are_the_same_spec():
    given_lists = {"held_out": [[3, 2, 1, 1], [4], [np.int64(9)]], "part": "train", "pointer_map": [0] * 10,
                   "value_banks": ["mnist"]}  # fmt: skip
    spec = from_mapping(VisualSpec, given_lists)
    assert spec.held_out == ((1, 2, 3), (4,), (9,))
    assert spec == from_mapping(VisualSpec, json.loads(json.dumps(to_mapping(spec))))
    assert hash(spec) == hash(change(spec))
    assert VisualSpec(value_banks="mnist") == VisualSpec()


def test_sets_by_name_are_changed_and_named():
    dataset = images("digits-holdout-test", seed=4, num_examples=9)
    assert (dataset.split, dataset.seed, len(dataset), dataset.spec.part) == ("test", 4, 9, "test")
    assert images(VisualSpec(**DIGITS), split="mine").split == "mine"
    assert repr(dataset).startswith("VisualDataset(VisualSpec(rows=2")
    with pytest.raises(ValueError, match="did you mean digits-iid-train"):
        images("digit-iid-train")


def test_the_number_of_labels_of_your_own_aggregation(bank_files):
    own = f"{__name__}:is_even"
    dataset = visual("sequence", bank_files, aggregation=own, num_classes=2)
    found = dataset.batch(np.arange(20))
    assert dataset.num_classes == 2
    np.testing.assert_array_equal(found.labels, found.windows.sum(axis=1) % 2 == 0)


def is_even(windows):
    return (windows.sum(axis=1) % 2 == 0).astype(int)


REFUSALS = {
    "rows": ({"rows": 0}, "rows is 0; allowed: an integer in [1, 256]"),
    "one cell": ({"rows": 1, "columns": 1}, "columns is 1; allowed with one row: at least 2"),
    "cell": ({"cell": 0}, "cell is 0; allowed"),
    "small cell": ({"cell": 7}, "cell is 7; allowed: at least 8, the size of the images"),
    "smaller than the other bank": ({"pointer_bank": "mnist"}, "cell is 12; allowed: at least 28"),
    "pointer cell": ({"pointer_cell": 4}, "pointer_cell is 4; allowed: an integer in [0, 3]"),
    "short map": ({"pointer_map": (0, 1, 2)}, "pointer_map is (0, 1, 2); allowed: 10 entries"),
    "map to nowhere": ({"pointer_map": (0,) * 9 + (3,)}, "pointer_map entry is 3; allowed: an integer in [0, 2]"),
    "map past the last window": ({"pointer_map": (2,) * 10, "window": 2, "window_end": "fit"}, "integer in [0, 1]"),
    "no map": ({"pointer_map": 3}, "pointer_map is 3; allowed: a tuple"),
    "bank": ({"pointer_bank": ""}, "pointer_bank is ''; allowed: mnist"),
    "banks": ({"value_banks": ("digits",) * 2}, "value_banks is ('digits', 'digits'); allowed: one bank, or one for"),
    "no bank": ({"value_banks": (3,)}, "value_banks is 3; allowed"),
    "window": ({"window": 4}, "window is 4; allowed: an integer in [1, 3]"),
    "aggregation": ({"aggregation": "meen"}, "aggregation is 'meen'; allowed: mod_sum"),
    "parity": ({"aggregation": "parity"}, "aggregation is 'parity'; allowed for 10 classes: mod_sum"),
    "end": ({"window_end": "wrap"}, "window_end is 'wrap'; allowed: cyclic"),
    "labels": ({"num_classes": 3}, "num_classes is 3; allowed for mod_sum: 10"),
    "jitter": ({"jitter": 1}, "jitter is 1; allowed: True or False"),
    "redraw": ({"redraw": True, "bank_part": "test"}, "redraw is True; allowed for a test set: False"),
    "part": ({"part": "eval"}, "part is 'eval'; allowed: all, train, test"),
    "nothing held out": ({"part": "train"}, "part is 'train'; allowed without held_out: all"),
    "bank part": ({"bank_part": "valid"}, "bank_part is 'valid'; allowed: train, test"),
    "held out of too few": ({"held_out": ((1,),)}, "held_out is ((1,),); allowed: classes for each of 3 value cells"),
    "held out": ({"held_out": (1, 2, 3)}, "held_out is (1, 2, 3); allowed: a tuple of classes for each value cell"),
    "no class": ({"held_out": ((1,), (2,), (10,))}, "held_out class is 10; allowed: [0, 9]"),
    "a name": ({"held_out": ((1,), (2,), ("cat",))}, "held_out class is 'cat'; allowed: an integer"),
    "all classes": ({"held_out": ((1,), (2,), tuple(range(10))), "part": "train"}, "for the train part: not all"),
    "none to test": ({"held_out": ((1,), (), (2,)), "part": "test"}, "for the test part: one class or more"),
    "size": ({"num_examples": 0}, "num_examples is 0; allowed"),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_bad_specs_are_refused_without_reading_a_bank(kind):
    changes, message = REFUSALS[kind]
    with pytest.raises(ValueError, match="allowed") as caught:
        VisualSpec(**{**DIGITS, **changes})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


LATE_REFUSALS = {
    "small cell": ({"cell": 5}, "cell is 5; allowed: at least 7"),
    "short map": ({"pointer_map": (0,) * 10}, "pointer_map is (0, 0, 0, 0, 0, 0, 0, 0, 0, 0); allowed: 5 entries"),
    "no class": ({"held_out": ((1,), (2,), (5,))}, "held_out class is 5; allowed: [0, 4]"),
    "all classes": ({"held_out": ((0, 1, 2, 3, 4),) * 3, "part": "train"}, "for the train part: not all classes"),
    "parity": ({"aggregation": "parity"}, "aggregation is 'parity'; allowed for 5 classes"),
    "other classes": ({"value_banks": ("digits", "grey", "grey"), "window": 2}, "for banks of [5, 10] classes: 1"),
}


@pytest.mark.parametrize("kind", LATE_REFUSALS)
def test_what_only_the_banks_can_tell_is_refused_by_the_data_set(bank_files, kind):
    changes, message = LATE_REFUSALS[kind]
    fields = {"pointer_bank": "grey", "value_banks": ("grey",), "cell": 12, **changes}
    fields["value_banks"] = tuple(bank_files.get(name, name) for name in fields["value_banks"])
    spec = VisualSpec(**{**fields, "pointer_bank": bank_files["grey"]})
    with pytest.raises(ValueError, match="allowed") as caught:
        VisualDataset(spec)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("part", "held"), [("test", (1, 2)), ("train", (0, 3))])
def test_classes_without_images_are_refused(tmp_path, part, held):
    path = str(tmp_path / "lacking.npz")
    np.savez(path, X=np.zeros((12, 4, 4), np.uint8), Y=np.array([0, 3] * 6))  # four classes, two of them empty
    spec = VisualSpec(cell=8, pointer_bank="digits", value_banks=(path,), held_out=(held,) * 3, part=part)
    with pytest.raises(
        ValueError, match=r"held_out is .*; allowed: classes with images in the train part of .*lacking"
    ):
        VisualDataset(spec)


def test_missing_banks_are_named(tmp_path):
    with pytest.raises(ValueError, match="no such file; to fetch it, run: neophyte data fetch mnist --out"):
        images("mnist-iid-train", root=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [({"indices": [-1]}, "indices"), ({"indices": [0.5]}, "indices"), ({"indices": [0], "epoch": -1}, "epoch"),
     ({"indices": [0], "threads": 0}, "threads")],
)  # fmt: skip
def test_bad_arguments_are_refused(bank_files, arguments, field):
    with pytest.raises(ValueError, match=field):
        visual("iid", bank_files).batch(**arguments)
