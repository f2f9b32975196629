"""Image banks: the standard files read as they are, damaged and missing ones named, other content told apart."""

import gzip
import os
import pickle
import struct
import subprocess
import sys
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from neophyte.pvr import banks
from neophyte.pvr.banks import load_bank, make_bank, read_idx


def idx_bytes(array):
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def draw(count, shape=(28, 28), seed=0):
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (count, *shape), dtype=np.uint8), (np.arange(count) % 10).astype(np.uint8)


def write_mnist(root, folder="MNIST/raw", suffix="", counts=(20, 13)):
    path = root / folder
    path.mkdir(parents=True, exist_ok=True)
    pack = gzip.compress if suffix else bytes
    for seed, (stem, count) in enumerate(zip(("train", "t10k"), counts, strict=True)):
        images, labels = draw(count, seed=seed)
        (path / f"{stem}-images-idx3-ubyte{suffix}").write_bytes(pack(idx_bytes(images)))
        (path / f"{stem}-labels-idx1-ubyte{suffix}").write_bytes(pack(idx_bytes(labels)))
    return path


def refusal(call, *args):
    """The one line of the ValueError that the call raises."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011  every message is looked at
        call(*args)
    line = str(caught.value)
    assert "\n" not in line
    return line


# MNIST and Fashion-MNIST.


@pytest.mark.parametrize(("name", "folder"), [("mnist", "MNIST/raw"), ("fashion-mnist", "FashionMNIST/raw")])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_banks_are_read(tmp_path, name, folder, suffix):
    write_mnist(tmp_path, folder, suffix)
    for seed, (part, count) in enumerate({"train": 20, "test": 13}.items()):
        bank, (images, labels) = load_bank(name, tmp_path, part), draw(count, seed=seed)
        assert bank.images.dtype == bank.labels.dtype == np.uint8
        np.testing.assert_array_equal(bank.images, images[..., None])
        np.testing.assert_array_equal(bank.labels, labels)
        assert (bank.name, len(bank), bank.form) == (name, count, banks.Form(28, 28, 1, 10))


def test_the_digest_tells_contents_apart_and_nothing_else(tmp_path):
    write_mnist(tmp_path / "a")
    write_mnist(tmp_path / "b", suffix=".gz")
    write_mnist(tmp_path / "b", "FashionMNIST/raw")
    train = load_bank("mnist", tmp_path / "a")
    assert (
        train.digest == load_bank("mnist", tmp_path / "b").digest == load_bank("fashion-mnist", tmp_path / "b").digest
    )
    images, labels = draw(20)
    digests = {train.digest, load_bank("mnist", tmp_path / "a", "test").digest}
    images[3, 5, 5] ^= 1
    digests.add(make_bank("other", images, labels).digest)
    labels[3] ^= 1
    digests.add(make_bank("other", images, labels).digest)
    digests.add(make_bank("other", images, labels, 11).digest)
    digests.add(make_bank("other", images.reshape(20, 14, 56), labels).digest)
    assert len(digests) == 6


def test_banks_cannot_be_written_to_and_leave_the_callers_arrays_alone():
    images, labels = draw(20)
    bank = make_bank("mine", images[..., None], labels)
    for array in (bank.images, bank.labels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    images[0], labels[0] = 0, 0


def test_indices_of_classes():
    bank = make_bank("mine", *draw(25))
    np.testing.assert_array_equal(bank.indices([3]), [3, 13, 23])
    np.testing.assert_array_equal(bank.indices((7, 4)), [4, 7, 14, 17, 24])
    assert not len(bank.indices([]))


IMAGES, LABELS = draw(20)
GOOD = idx_bytes(IMAGES)
DAMAGED_IMAGES = {
    "empty": (b"", "it holds 0 bytes, fewer than the 16 of its header"),
    "half a header": (GOOD[:9], "it holds 9 bytes, fewer than the 16"),
    "another magic": (b"PK\3\4" + GOOD[4:], "it begins with 504b0304, not 00000803"),
    "floats": (GOOD[:2] + b"\x0d" + GOOD[3:], "it begins with 00000d03"),
    "labels": (idx_bytes(LABELS), "it begins with 00000801"),
    "cut": (GOOD[:-1], "it holds 15695 bytes, not the 15696"),
    "too long": (GOOD + b"\0", "it holds 15697 bytes, not the 15696"),
    "a vast header": (GOOD[:4] + b"\xff" * 12 + GOOD[16:], "not the 79228162458924105385300197391"),
    "other pixels": (idx_bytes(draw(20, (8, 8))[0]), "its shape is (20, 8, 8), not (count, 28, 28)"),
    "no images": (idx_bytes(draw(0)[0]), "its shape is (0, 28, 28)"),
}
DAMAGED_LABELS = {
    "fewer": (idx_bytes(LABELS[:-1]), "it holds 19 labels below 10, not 20 below 10"),
    "none": (idx_bytes(LABELS[:0]), "it holds 0 labels"),
    "too large": (idx_bytes(LABELS + 1), "it holds 20 labels below 11"),
    "cut": (idx_bytes(LABELS)[:-1], "it holds 27 bytes, not the 28"),
}
DAMAGED = {("images-idx3", kind): value for kind, value in DAMAGED_IMAGES.items()}
DAMAGED |= {("labels-idx1", kind): value for kind, value in DAMAGED_LABELS.items()}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("what", "kind"), DAMAGED)
def test_damaged_idx_files_are_named(tmp_path, what, kind, packed):
    data, problem = DAMAGED[what, kind]
    suffix = ".gz" if packed else ""
    path = write_mnist(tmp_path, suffix=suffix) / f"train-{what}-ubyte{suffix}"
    path.write_bytes(gzip.compress(data) if packed else data)
    line = refusal(load_bank, "mnist", tmp_path)
    assert line.startswith(f"{path}: corrupt IDX file: ")
    assert problem in line
    assert line.endswith(f"remove it and run: neophyte data fetch mnist --out {tmp_path}")
    assert len(load_bank("mnist", tmp_path, "test")) == 13


@pytest.mark.parametrize("data", [gzip.compress(GOOD)[:-5000], gzip.compress(GOOD)[:-4], GOOD, b"", b"\x1f\x8b"])
def test_damaged_compression_is_named(tmp_path, data):
    path = write_mnist(tmp_path, suffix=".gz") / "train-images-idx3-ubyte.gz"
    path.write_bytes(data)
    assert refusal(load_bank, "mnist", tmp_path).startswith(f"{path}: corrupt IDX file: ")


@given(st.integers(0, 15), st.integers(1, 255), st.binary(max_size=40))
def test_no_flipped_header_and_no_other_bytes_pass(tmp_path_factory, place, flip, other):
    path = tmp_path_factory.getbasetemp() / "flipped"
    path.write_bytes(GOOD[:place] + bytes((GOOD[place] ^ flip,)) + GOOD[place + 1 :])
    assert refusal(read_idx, path, 3).startswith(f"{path}: corrupt IDX file: ")
    path.write_bytes(other)
    assert refusal(read_idx, path, 3).startswith(f"{path}: corrupt IDX file: ")


@pytest.mark.parametrize(
    ("name", "part", "file"),
    [
        ("mnist", "train", "MNIST/raw/train-images-idx3-ubyte"),
        ("mnist", "test", "MNIST/raw/t10k-images-idx3-ubyte"),
        ("fashion-mnist", "train", "FashionMNIST/raw/train-images-idx3-ubyte"),
        ("cifar10", "train", "cifar-10-batches-py/data_batch_1"),
        ("cifar10", "test", "cifar-10-batches-py/test_batch"),
    ],
)
def test_missing_files_are_named_with_the_command_that_fetches_them(tmp_path, name, part, file):
    line = refusal(load_bank, name, tmp_path, part)
    assert line == f"{tmp_path / file}: no such file; to fetch it, run: neophyte data fetch {name} --out {tmp_path}"


def test_the_second_of_two_files_is_named_too(tmp_path):
    path = write_mnist(tmp_path) / "train-labels-idx1-ubyte"
    path.unlink()
    assert refusal(load_bank, "mnist", tmp_path).startswith(f"{path}: no such file")


def test_unknown_names_and_parts_are_refused():
    assert "bank is 'mnsit'; allowed: mnist, fashion-mnist" in refusal(load_bank, "mnsit")
    assert "did you mean mnist?" in refusal(load_bank, "mnsit")
    assert "part is 'eval'; allowed: train, test" in refusal(load_bank, "digits", "data", "eval")


# CIFAR-10.


class Python2Pickler(pickle._Pickler):
    """Writes bytes and text as Python 2 did, whose pickles CIFAR-10 is made of: as strings of neither kind."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_string(self, value):
        data = value.encode() if isinstance(value, str) else value
        self.write(pickle.BINSTRING + struct.pack("<i", len(data)) + data)
        self.memoize(value)

    dispatch[bytes] = dispatch[str] = save_string


def write_cifar(root, kind, count=12):
    """Write the six batches; return the images and labels of the training part."""
    folder = root / ("cifar-10-batches-bin" if kind == "bin" else "cifar-10-batches-py")
    folder.mkdir(parents=True)
    whole = []
    for number, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        images, labels = draw(count, (32, 32, 3), seed=number)
        planes = images.transpose(0, 3, 1, 2).reshape(count, -1)
        if kind == "bin":
            (folder / f"{name}.bin").write_bytes(np.c_[labels[:, None], planes].tobytes())
        else:
            value = {"data": planes, "labels": labels.tolist(), "batch_label": name}
            with open(folder / name, "wb") as file:
                if kind == "python 2":
                    Python2Pickler(file, 2).dump(value)
                else:
                    pickle.dump(value, file, 2)
        whole.append((images, labels))
    return [np.concatenate(arrays) for arrays in zip(*whole[:5], strict=True)]


@pytest.mark.parametrize("kind", ["python 2", "python 3", "bin"])
def test_cifar_is_read(tmp_path, kind):
    images, labels = write_cifar(tmp_path, kind)
    bank = load_bank("cifar10", tmp_path)
    np.testing.assert_array_equal(bank.images, images)
    np.testing.assert_array_equal(bank.labels, labels)
    assert (bank.form, len(load_bank("cifar10", tmp_path, "test"))) == (banks.Form(32, 32, 3, 10), 12)


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil",)


DAMAGED_BATCHES = {
    "evil": (pickle.dumps({"data": Evil()}, 2), "it asks for posix.mkdir"),
    "cut": (pickle.dumps({"data": IMAGES}, 2)[:-200], ""),
    "text": (b"<html>", ""),
    "empty": (b"", "Ran out of input"),
    "a list": (pickle.dumps([1, 2], 2), "'list' object has no attribute 'items'"),
    "no labels": (pickle.dumps({"data": IMAGES}, 2), "labels"),
    "other images": (pickle.dumps({"data": IMAGES, "labels": LABELS.tolist()}, 2), "uint8 (count, 3072)"),
    "no images": (pickle.dumps({"data": np.empty((0, 3072), np.uint8), "labels": []}, 2), ""),
    "objects": (pickle.dumps({"data": np.array([None]), "labels": [1]}, 2), "uint8 (count, 3072)"),
    "too few": (pickle.dumps({"data": np.zeros((3, 3072), np.uint8), "labels": [1, 2]}, 2), "as many labels"),
    "a label": (pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [1, 10]}, 2), "lie in [1, 10]"),
}


@pytest.mark.skipif(os.name == "nt", reason="os.mkdir has another module there")
@pytest.mark.parametrize("kind", DAMAGED_BATCHES)
def test_damaged_batches_are_named_and_run_nothing(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    data, problem = DAMAGED_BATCHES[kind]
    write_cifar(tmp_path, "python 3")
    path = tmp_path / "cifar-10-batches-py" / "data_batch_3"
    path.write_bytes(data)
    line = refusal(load_bank, "cifar10", tmp_path)
    assert line.startswith(f"{path}: corrupt CIFAR-10 batch: ")
    assert problem in line
    assert line.endswith(f"remove it and run: neophyte data fetch cifar10 --out {tmp_path}")
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    ("data", "problem"), [(b"", "0 bytes"), (b"\1" * 3074, "3074 bytes"), (b"\12" * 3073, "[10, 10]")]
)
def test_damaged_records_are_named(tmp_path, data, problem):
    write_cifar(tmp_path, "bin")
    path = tmp_path / "cifar-10-batches-bin" / "test_batch.bin"
    path.write_bytes(data)
    line = refusal(load_bank, "cifar10", tmp_path, "test")
    assert line.startswith(f"{path}: corrupt CIFAR-10 batch: ")
    assert problem in line


# The digits, .npz files and folders.


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    theirs, parts = load_digits(), [load_bank("digits", part=part) for part in ("train", "test")]
    assert [len(bank) for bank in parts] == [1297, 500]
    images = np.concatenate([bank.images for bank in parts])[..., 0]
    assert images.max() == 255
    np.testing.assert_array_equal(images, np.floor(theirs.images * 255 / 16 + 0.5))
    np.testing.assert_array_equal(np.concatenate([bank.labels for bank in parts]), theirs.target)
    assert all(set(bank.labels) == set(range(10)) for bank in parts)


@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 1), (6, 5, 3)])
def test_npz_with_parts(tmp_path, shape):
    (train, train_labels), (test, test_labels) = draw(20, shape), draw(4, shape, seed=1)
    path = tmp_path / "mine.npz"
    np.savez(path, x_train=train, y_train=train_labels.astype(int), x_test=test, y_test=test_labels[:, None])
    bank = load_bank(str(path), part="test")
    np.testing.assert_array_equal(bank.images, test.reshape(4, 6, 5, -1))
    np.testing.assert_array_equal(bank.labels, test_labels)
    assert bank.num_classes == load_bank(str(path)).num_classes == 10  # the whole file's, not the part's 4


def test_npz_without_parts(tmp_path):
    images, labels = draw(20)
    np.savez_compressed(tmp_path / "mine.npz", X=images, Y=labels)
    train, test = (load_bank(str(tmp_path / "mine.npz"), part=part) for part in ("train", "test"))
    np.testing.assert_array_equal(test.images[..., 0], images[[5, 11, 17]])
    np.testing.assert_array_equal(test.labels, labels[[5, 11, 17]])
    np.testing.assert_array_equal(train.images[..., 0], np.delete(images, [5, 11, 17], axis=0))


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"a": IMAGES}, "it holds none of the arrays; allowed: x_train"),
        ({"X": IMAGES}, "it holds X; allowed"),
        ({"X": IMAGES / 255, "Y": LABELS}, "images are float64"),
        ({"X": IMAGES, "Y": LABELS[:3]}, "X holds 20 images and Y 3 labels"),
        ({"X": IMAGES[:3], "Y": LABELS[:3]}, "at least 6"),
        ({"X": IMAGES, "Y": LABELS / 2}, "labels are float64"),
        ({"X": IMAGES, "Y": LABELS - 1.0}, "labels are float64"),
        ({"X": IMAGES, "Y": LABELS.astype(int) - 1}, "labels lie in [-1, 8]; allowed: [0, 8]"),
        ({"X": IMAGES, "Y": LABELS * 0}, "the number of classes is 1; allowed: [2, 256]"),
        ({"X": IMAGES, "Y": LABELS.astype(int) * 30}, "the number of classes is 271"),
        ({"X": np.zeros((20, 8, 8, 4), np.uint8), "Y": LABELS}, "images are uint8 (17, 8, 8, 4)"),
        ({"X": np.zeros((20, 64), np.uint8), "Y": LABELS}, "images are uint8 (17, 64)"),
        ({"X": np.zeros((20, 0, 8), np.uint8), "Y": LABELS}, "images are uint8 (17, 0, 8, 1)"),
        ({"X": np.array([None] * 20), "Y": LABELS}, "not an .npz file of arrays"),
    ],
)
def test_bad_npz_files_are_refused(tmp_path, arrays, problem):
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays)
    line = refusal(load_bank, str(path))
    assert line.startswith(f"{path}: ")
    assert problem in line


@pytest.mark.parametrize("data", [b"", b"no archive", b"PK\3\4 cut short"])
def test_other_files_called_npz_are_refused(tmp_path, data):
    path = tmp_path / "mine.npz"
    assert refusal(load_bank, str(path)) == f"{path}: no such file; allowed: an .npz file that is there"
    path.write_bytes(data)
    assert refusal(load_bank, str(path)).startswith(f"{path}: not an .npz file of arrays")


def write_folder(root, mode="L", size=(6, 5)):
    """A folder of two classes to train, three to test; returns what was drawn."""
    random, drawn = np.random.default_rng(5), {}
    for part, label, count in (("train", "cat", 3), ("train", "dog", 2), ("test", "ape", 1), ("test", "dog", 2)):
        (root / part / label).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            pixels = random.integers(0, 256, (*size, 3) if mode == "RGB" else size, dtype=np.uint8)
            Image.fromarray(pixels).save(root / part / label / f"{number}.png")
            drawn[part, label, number] = pixels
    (root / "train" / "cat" / ".hidden.png").write_bytes(b"")
    (root / "train" / "cat" / "notes.txt").write_text("not an image")
    (root / "readme.png").write_bytes(b"")
    return drawn


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_folders_of_images(tmp_path, mode):
    drawn = write_folder(tmp_path, mode)
    train, test = (load_bank(str(tmp_path), part=part) for part in ("train", "test"))
    assert train.form == test.form == banks.Form(6, 5, 3 if mode == "RGB" else 1, 3)
    np.testing.assert_array_equal(train.labels, [1, 1, 1, 2, 2])  # ape, cat, dog in both parts
    np.testing.assert_array_equal(test.labels, [0, 2, 2])
    for bank, part in ((train, "train"), (test, "test")):
        whole = np.stack([pixels for (of, _, _), pixels in drawn.items() if of == part])
        np.testing.assert_array_equal(bank.images, whole.reshape(bank.images.shape))


def test_a_coloured_image_makes_the_grey_ones_coloured(tmp_path):
    drawn = write_folder(tmp_path)
    Image.new("RGB", (5, 6), (10, 20, 30)).save(tmp_path / "train" / "dog" / "9.png")
    bank = load_bank(str(tmp_path))
    np.testing.assert_array_equal(bank.images[0], np.repeat(drawn["train", "cat", 0][..., None], 3, axis=2))
    assert (bank.images[-1] == (10, 20, 30)).all()


def test_bad_folders_are_refused(tmp_path):
    assert "no images; allowed: CLASS/NAME" in refusal(load_bank, str(tmp_path))
    write_folder(tmp_path)
    odd = tmp_path / "train" / "dog" / "odd.png"
    Image.new("L", (6, 5)).save(odd)
    first = tmp_path / "train" / "cat" / "0.png"
    assert refusal(load_bank, str(tmp_path)) == (
        f"{odd}: its height and width are (5, 6); allowed: those of {first}, (6, 5)"
    )
    odd.write_bytes(first.read_bytes()[:40])
    assert refusal(load_bank, str(tmp_path)).startswith(f"{odd}: cannot be read as an image")
    Image.fromarray(np.zeros((6, 5), np.uint16)).save(odd)
    assert "more than 8 bits a pixel" in refusal(load_bank, str(tmp_path))


# The memory.


def test_a_bank_is_read_once_until_its_files_change(tmp_path):
    path = write_mnist(tmp_path) / "train-labels-idx1-ubyte"
    bank = load_bank("mnist", tmp_path)
    assert load_bank("mnist", str(tmp_path)) is bank
    labels = bank.labels[::-1].copy()
    path.write_bytes(idx_bytes(labels))
    os.utime(path, ns=(1, 1))
    other = load_bank("mnist", tmp_path)
    np.testing.assert_array_equal(other.labels, labels)
    assert other.digest != bank.digest


def test_a_new_class_in_a_folder_is_noticed(tmp_path):
    write_folder(tmp_path)
    assert load_bank(str(tmp_path)).num_classes == 3
    (tmp_path / "test" / "bee").mkdir()
    assert load_bank(str(tmp_path)).num_classes == 4


def test_nothing_heavy_is_imported():
    heavy = {"torch", "torchvision", "sklearn", "PIL", "matplotlib"}
    code = f"import sys, neophyte.pvr.visual, neophyte.pvr.fetch; print({heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
