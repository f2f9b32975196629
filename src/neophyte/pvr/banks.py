"""Image banks: labelled images with a training and a test part, read from the standard files by readers of our own."""

from __future__ import annotations

import functools
import gzip
import hashlib
import importlib
import math
import pickle
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from neophyte.core.spec import check_choice, suggestion

PARTS = ("train", "test")
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp")
# The 8 x 8 digits have no parts of their own: the first 1,297 are the training part, the last 500 the test part.
DIGITS_TRAIN = 1297
# Nor has an .npz file with the arrays X and Y: images 5, 11, 17, ... are the test part.
NPZ_TEST_EVERY = 6
_CIFAR_RECORD = 1 + 3 * 32 * 32


@dataclass(frozen=True)
class Form:
    """What the images of a bank are: height and width in pixels, channels (1 or 3) and number of classes."""

    height: int
    width: int
    channels: int
    num_classes: int


KNOWN = {
    "mnist": Form(28, 28, 1, 10),
    "fashion-mnist": Form(28, 28, 1, 10),
    "cifar10": Form(32, 32, 3, 10),
    "digits": Form(8, 8, 1, 10),
}
_IDX_FOLDERS = {"mnist": "MNIST/raw", "fashion-mnist": "FashionMNIST/raw"}


@dataclass(frozen=True, eq=False)
class Bank:
    """One part of a set of labelled images; its arrays cannot be written to.

    Attributes:
        name: What it was loaded as.
        images: uint8 (count, height, width, channels), channels 1 (grey) or 3 (red, green, blue), in [0, 255].
        labels: uint8 (count,), in [0, num_classes).
        num_classes: Number of classes, in [2, 256]; a part may lack images of some.
        digest: The first 32 hex digits of the sha256 of all this but the name: equal banks have equal digests.
    """

    name: str
    images: np.ndarray = field(repr=False)
    labels: np.ndarray = field(repr=False)
    num_classes: int
    digest: str

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def form(self) -> Form:
        """What its images are."""
        _, height, width, channels = self.images.shape
        return Form(height, width, channels, self.num_classes)

    def indices(self, classes: Iterable[int]) -> np.ndarray:
        """Return the positions of all images of these classes, int64 (count,), ascending."""
        return np.flatnonzero(np.isin(self.labels, list(classes)))


def make_bank(name: str, images: Any, labels: Any, num_classes: int | None = None) -> Bank:
    """Check images and labels and make a bank of them.

    Args:
        name: What errors call it.
        images: uint8 (count, height, width) or (count, height, width, channels), channels 1 or 3.
        labels: Integers in [0, 256), (count,) or (count, 1).
        num_classes: Number of classes; by default the largest label plus one.

    Raises:
        ValueError: The arrays are not of this form.
    """
    images, labels = np.asarray(images), np.asarray(labels)
    if images.ndim == 3:
        images = images[..., None]
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] not in (1, 3) or 0 in images.shape:
        raise ValueError(f"{name}: images are {images.dtype} {images.shape}; allowed: uint8 (count, height, width) or "
                         "(count, height, width, 1 or 3), not empty")  # fmt: skip
    if labels.shape not in ((len(images),), (len(images), 1)) or labels.dtype.kind not in "iu":
        raise ValueError(f"{name}: labels are {labels.dtype} {labels.shape}; allowed: integers ({len(images)},)")
    classes = int(labels.max()) + 1 if num_classes is None else num_classes
    if not 2 <= classes <= 256:
        raise ValueError(f"{name}: the number of classes is {classes}; allowed: [2, 256]")
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(f"{name}: labels lie in [{labels.min()}, {labels.max()}]; allowed: [0, {classes - 1}]")
    # A view: the flag set below is then not the caller's array's.
    images, labels = np.ascontiguousarray(images).view(), labels.reshape(-1).astype(np.uint8)
    state = hashlib.sha256(f"{images.shape} {classes}".encode())
    for array in (images, labels):
        state.update(memoryview(array).cast("B"))
        array.setflags(write=False)
    return Bank(name, images, labels, classes, state.hexdigest()[:32])


def load_bank(name: str, root: str | Path = "data", part: str = "train") -> Bank:
    """Load a bank; the last few are kept in memory, and read again when their files change.

    Args:
        name: "mnist" (ROOT/MNIST/raw/*-ubyte, or .gz), "fashion-mnist" (ROOT/FashionMNIST/raw), "cifar10"
            (ROOT/cifar-10-batches-py, or -bin), "digits" (scikit-learn's 8 x 8 digits, with 0..16 scaled to 0..255;
            the first 1,297 are "train"), the path of an .npz file, or of a folder of images.
            An .npz file holds x_train, y_train, x_test and y_test, or X and Y, of which every sixth image is "test".
            A folder holds FOLDER/train/CLASS/*.png and FOLDER/test/CLASS/*.png (or .jpg, .bmp), all of one size; the
            classes are numbered by name.
        root: Folder of the first three, as `fetch.fetch_images` fills it.
        part: "train" or "test".

    Raises:
        ValueError: A file is missing or damaged; the message names it and says what to do.
    """
    check_choice("part", part, PARTS)
    files = _files(name, Path(root), part)
    stamp = tuple((str(file.absolute()), file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    return _load(name, str(root), part, stamp)


@functools.lru_cache(maxsize=8)
def _load(name: str, root: str, part: str, stamp: tuple[tuple[str, int, int], ...]) -> Bank:
    files = [Path(path) for path, _, _ in stamp]
    if name in _IDX_FOLDERS:
        return _read_again(name, root, lambda: _idx_bank(name, files))
    if name == "cifar10":
        return _read_again(name, root, lambda: _cifar_bank(files))
    if name == "digits":
        return _digits_bank(part)
    if name.endswith(".npz"):
        return _npz_bank(files[0], part)
    return _folder_bank(Path(name), list(filter(_is_image, files)))


def _read_again(name: str, root: str, read: Callable[[], Bank]) -> Bank:
    """Call `read`; where a file is damaged, say how to get it anew."""
    try:
        return read()
    except ValueError as error:
        raise ValueError(f"{error}; remove it and run: {_command(name, root)}") from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _command(name: str, root: str | Path) -> str:
    return f"neophyte data fetch {name} --out {root}"


# Which files a bank is made of.


def _files(name: str, root: Path, part: str) -> list[Path]:
    if name in _IDX_FOLDERS:
        stem = "train" if part == "train" else "t10k"
        names = [f"{stem}-images-idx3-ubyte", f"{stem}-labels-idx1-ubyte"]
        paths = [root / _IDX_FOLDERS[name] / file for file in names]
        return [_found(name, root, path, path.with_name(f"{path.name}.gz")) for path in paths]
    if name == "cifar10":
        return _cifar_files(root, part)
    if name == "digits":
        return []
    path = Path(name)
    if name.endswith(".npz"):
        if not path.is_file():
            raise ValueError(f"{path}: no such file; allowed: an .npz file that is there")
        return [path]
    if not path.is_dir():
        raise ValueError(f"bank is {name!r}; allowed: {', '.join(KNOWN)}, the path of an .npz file, or a folder of "
                         f"images that is there{suggestion(name, KNOWN)}")  # fmt: skip
    return _folder_files(path, part)


def _found(name: str, root: Path, *candidates: Path) -> Path:
    """Return the first of these files that is there."""
    for path in candidates:
        if path.is_file():
            return path
    raise ValueError(f"{candidates[0]}: no such file; to fetch it, run: {_command(name, root)}")


def _cifar_files(root: Path, part: str) -> list[Path]:
    names = [f"data_batch_{i}" for i in range(1, 6)] if part == "train" else ["test_batch"]
    binary = root / "cifar-10-batches-bin"
    if binary.is_dir() and not (root / "cifar-10-batches-py").is_dir():
        return [_found("cifar10", root, binary / f"{name}.bin") for name in names]
    return [_found("cifar10", root, root / "cifar-10-batches-py" / name) for name in names]


def _folder_files(folder: Path, part: str) -> list[Path]:
    found = [file for file in sorted((folder / part).glob("*/*")) if _is_image(file)]
    # The folders too, since they change when a class comes or goes.
    folders = [folder / part for part in PARTS if (folder / part).is_dir()]
    if not found:
        raise ValueError(f"{folder / part}: no images; allowed: CLASS/NAME in it with the suffix "
                         f"{', '.join(IMAGE_SUFFIXES)}")  # fmt: skip
    return [*folders, *found]


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in IMAGE_SUFFIXES and not file.name.startswith(".") and file.is_file()


# IDX, the format of MNIST: 0, 0, the type's code, the number of axes, then each axis's length and the values.


def read_idx(path: str | Path, axes: int) -> np.ndarray:
    """Read an IDX file of bytes, compressed if its name ends in .gz, as uint8 with that many axes.

    Raises:
        ValueError: The file is not one; the message says what is wrong.
    """
    path = Path(path)

    def corrupt(what: str) -> ValueError:
        return ValueError(f"{path}: corrupt IDX file: {what}")

    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise corrupt(f"it cannot be decompressed, {_line(error)}") from None
    start = 4 + 4 * axes
    if len(data) < start:
        raise corrupt(f"it holds {len(data)} bytes, fewer than the {start} of its header")
    magic = bytes((0, 0, 8, axes))
    if data[:4] != magic:
        raise corrupt(f"it begins with {data[:4].hex()}, not {magic.hex()} (bytes, axes: {axes})")
    shape = tuple(int(length) for length in np.frombuffer(data, ">u4", axes, 4))
    size = start + math.prod(shape)
    if len(data) != size:
        raise corrupt(f"it holds {len(data)} bytes, not the {size} of its header's shape {shape}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def _idx_bank(name: str, files: list[Path]) -> Bank:
    form = KNOWN[name]
    images, labels = read_idx(files[0], 3), read_idx(files[1], 1)
    if images.shape[1:] != (form.height, form.width) or not len(images):
        raise ValueError(f"{files[0]}: corrupt IDX file: its shape is {images.shape}, not (count, {form.height}, "
                         f"{form.width})")  # fmt: skip
    if len(labels) != len(images) or labels.max() >= form.num_classes:
        raise ValueError(f"{files[1]}: corrupt IDX file: it holds {len(labels)} labels below "
                         f"{int(labels.max(initial=0)) + 1}, not {len(images)} below {form.num_classes}")  # fmt: skip
    return make_bank(name, images, labels, form.num_classes)


# CIFAR-10: five files of training images and one of test images, as Python pickles or as plain records.


class _Unpickler(pickle.Unpickler):
    """Loads arrays and plain values; a pickle can ask for any function, and these are all that it gets."""

    def find_class(self, module: str, name: str) -> Any:
        reconstruct = np.empty(0).__reduce__()[0]
        allowed = {
            ("numpy.core.multiarray", "_reconstruct"): reconstruct,
            ("numpy._core.multiarray", "_reconstruct"): reconstruct,
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
            ("_codecs", "encode"): lambda text, _: text.encode("latin1"),  # how Python 3 writes bytes for Python 2
        }
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return allowed[module, name]


def _cifar_bank(files: list[Path]) -> Bank:
    parts = [_read_cifar_records(file) if file.suffix == ".bin" else _read_cifar_pickle(file) for file in files]
    pixels = np.concatenate([pixels for pixels, _ in parts])
    # The file holds a plane for each channel.
    images = pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return make_bank("cifar10", images, np.concatenate([labels for _, labels in parts]), 10)


def _read_cifar_pickle(path: Path) -> tuple[np.ndarray, np.ndarray]:
    try:
        with open(path, "rb") as file:
            loaded = _Unpickler(file, encoding="bytes").load()
        values = {key.decode() if isinstance(key, bytes) else key: value for key, value in loaded.items()}
        pixels, labels = values["data"], np.asarray(values["labels"])
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001  damaged pickles raise errors of every kind
        raise ValueError(f"{path}: corrupt CIFAR-10 batch: {_line(error)}") from None
    good = isinstance(pixels, np.ndarray) and pixels.dtype == np.uint8 and pixels.ndim == 2 and pixels.shape[1] == 3072
    if not good or labels.shape != (len(pixels),) or labels.dtype.kind not in "iu" or not len(labels):
        raise ValueError(f"{path}: corrupt CIFAR-10 batch: it does not hold data, uint8 (count, 3072), and as many "
                         "labels")  # fmt: skip
    _check_cifar_labels(path, labels)
    return pixels, labels


def _read_cifar_records(path: Path) -> tuple[np.ndarray, np.ndarray]:
    data = np.frombuffer(path.read_bytes(), np.uint8)
    if not data.size or data.size % _CIFAR_RECORD:
        raise ValueError(f"{path}: corrupt CIFAR-10 batch: it holds {data.size} bytes, no multiple of {_CIFAR_RECORD}")
    records = data.reshape(-1, _CIFAR_RECORD)
    _check_cifar_labels(path, records[:, 0])
    return records[:, 1:], records[:, 0]


def _check_cifar_labels(path: Path, labels: np.ndarray) -> None:
    if labels.min() < 0 or labels.max() > 9:
        raise ValueError(f"{path}: corrupt CIFAR-10 batch: its labels lie in [{labels.min()}, {labels.max()}], not "
                         "[0, 9]")  # fmt: skip


# The others.


def _digits_bank(part: str) -> Bank:
    """Return a part of scikit-learn's digits, whose pixels count 0 to 16 dots of a 4 x 4 square."""
    try:
        loaded = importlib.import_module("sklearn.datasets").load_digits()
    except ImportError:
        raise ValueError("bank is 'digits', which needs scikit-learn; run: pip install scikit-learn") from None
    chosen = slice(None, DIGITS_TRAIN) if part == "train" else slice(DIGITS_TRAIN, None)
    dots = loaded.images[chosen].astype(np.int64)
    return make_bank("digits", ((dots * 255 + 8) // 16).astype(np.uint8), loaded.target[chosen], 10)


def _npz_bank(path: Path, part: str) -> Bank:
    try:
        # Opened here: NumPy leaves a damaged archive open.
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("x_train", "y_train", "x_test", "y_test", "X", "Y") if name in file}
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001  damaged archives raise errors of every kind
        raise ValueError(f"{path}: not an .npz file of arrays ({_line(error)}); write it with numpy.savez") from None
    if {"x_train", "y_train", "x_test", "y_test"} <= arrays.keys():
        labels = [arrays["y_train"], arrays["y_test"]]
        images = arrays[f"x_{part}"]
    elif {"X", "Y"} <= arrays.keys():
        labels = [arrays["Y"]]
        images = arrays["X"]
    else:
        raise ValueError(f"{path}: it holds {', '.join(sorted(arrays)) or 'none of the arrays'}; allowed: x_train, "
                         "y_train, x_test and y_test, or X and Y")  # fmt: skip
    if any(array.dtype.kind not in "iu" or not array.size for array in labels):
        raise ValueError(f"{path}: labels are {labels[0].dtype}; allowed: integers, not none")
    # Both parts have the classes of the whole.
    classes = max(int(array.max()) for array in labels) + 1
    if len(labels) == 2:
        return make_bank(str(path), images, labels[PARTS.index(part)], classes)
    if len(images) < NPZ_TEST_EVERY or len(images) != len(labels[0]):
        raise ValueError(f"{path}: X holds {len(images)} images and Y {len(labels[0])} labels; allowed: as many, at "
                         f"least {NPZ_TEST_EVERY}")  # fmt: skip
    chosen = (np.arange(len(images)) % NPZ_TEST_EVERY == NPZ_TEST_EVERY - 1) == (part == "test")
    return make_bank(str(path), images[chosen], labels[0][chosen], classes)


def _folder_bank(folder: Path, files: list[Path]) -> Bank:
    try:
        from PIL import Image
    except ImportError:
        raise ValueError(f"{folder}: reading images needs Pillow; run: pip install pillow") from None
    classes = sorted({path.name for path in folder.glob("*/*") if path.parent.name in PARTS and path.is_dir()})
    loaded = []
    for file in files:
        try:
            with Image.open(file) as image:
                if image.mode[0] in "IF":
                    raise ValueError("it has more than 8 bits a pixel")
                loaded.append(np.asarray(image if image.mode == "L" else image.convert("RGB")))
        except Exception as error:  # noqa: BLE001  damaged images raise errors of every kind
            raise ValueError(f"{file}: cannot be read as an image ({_line(error)}); mend or remove it") from None
        if loaded[-1].shape[:2] != loaded[0].shape[:2]:
            raise ValueError(f"{file}: its height and width are {loaded[-1].shape[:2]}; allowed: those of {files[0]}, "
                             f"{loaded[0].shape[:2]}")  # fmt: skip
    if len({image.ndim for image in loaded}) > 1:  # grey ones among coloured ones
        loaded = [image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2) for image in loaded]
    labels = np.array([classes.index(file.parent.name) for file in files])
    return make_bank(str(folder), np.stack(loaded), labels, len(classes))
