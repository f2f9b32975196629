"""Bad input: one line that names it, status 2, and every file as it was."""

import errno
import json
import os
import shutil
import subprocess

import numpy as np
import pytest
import torch

from neophyte.core.files import sha256_file
from neophyte.metalang import TextCorpus

from .conftest import assert_refused, contents

SMALL = ("--num-sequences", 40, "--context-length", 24, "--pilot-tokens", 256, "--shard-size", 16)
TRAIN = ("--model", "laptop-2x32", "--context-length", 16, "--pilot-tokens", 256, "--steps", 4, "--batch-size", 2,
         "--device", "cpu", "--quiet")  # fmt: skip


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("sample metalang --order 0", ["order is 0; allowed: an integer in [1, 64]"]),
        ("sample metalang --orders 3 65", ["order is 65"]),
        ("sample metalang --vocab-size 65537", ["vocab_size is 65537; allowed: an integer in [2, 65536]"]),
        ("sample metalang --entropy-band 1.0 0.5", ["entropy_band is (1.0, 0.5); allowed: 0 < low < high"]),
        ("sample metalang --entropy-band 0.5", ["entropy-band"]),
        ("sample metalang --law adaptive", ["law is 'adaptive'", "did you mean additive?"]),
        ("sample metalang --preset tiny-trian", ["preset is 'tiny-trian'", "did you mean tiny-train?"]),
        ("sample metalang --vocab-sise 5", ["--vocab-sise"]),
        ("sample metalang --vocab-size many", ["vocab-size", "many"]),
        ("sample metalang -- -1", ["index is -1"]),
        ("sample metalang --length 0", ["length is 0"]),
        ("sample metalang --seed -1", ["seed is -1"]),
        ("sample chinese", ["chinese"]),
        ("smaple metalang", ["smaple"]),
        ("generate metalang", ["--out"]),
        ("generate metalang --out d --order 0", ["order is 0"]),
        ("generate metalang --out d --shard-size 0", ["shard_size is 0"]),
        ("generate metalang --out d --threads 0", ["threads is 0"]),
        ("verify nowhere", ["nowhere", "no such file"]),
        ("certify metalang/tiny-trian", ["task is 'metalang/tiny-trian'", "did you mean metalang/tiny-train"]),
        ("certify metalang/tiny-train --splits train train", ["splits is ('train', 'train')"]),
        ("certify metalang/tiny-train metalang/train", ["task is 'metalang/train@1'", "(4096,)", "(256,)"]),
        ("certify metalang/tiny-train metalang/tain", ["task is 'metalang/tain'"]),
        ("certify metalang/tiny-train --limit -1", ["limit is -1"]),
        ("certify metalang/tiny-train --threads 0", ["threads is 0"]),
        ("train metalang", ["--out"]),
        ("train metalang --out r --steps 0", ["steps is 0; allowed: an integer of at least 1"]),
        ("train metalang --out r --model tinny", ["model is 'tinny'", "did you mean tiny?"]),
        ("train metalang --out r --model my_moduls.GRU", ["model is 'my_moduls:GRU', which cannot be imported"]),
        ("train metalang --out r --model-args {", ["model_args is '{', which is not JSON"]),
        ("train metalang --out r --model-args [1]", ["model_args is '[1]'; allowed: a JSON object"]),
        ("""train metalang --out r --model-args {"d_model":7}""", ["d_model is 7; allowed: a multiple of"]),
        ("""train metalang --out r --model-args {"depth":3}""", ["Decoder does not take", "depth"]),
        ("""train metalang --out r --model-args {"vocab_size":16}""", ["vocab_size is 16 in model_args; allowed: 32"]),
        ("train metalang --out r --seed 9223372036854775808", ["seed is 9223372036854775808"]),
        ("train metalang --out r --device tpu", ["device is 'tpu'"]),
        ("train metalang --out r --trackers mlflow", ["trackers is 'mlflow'"]),
        ("train metalang --out r --learning-rate fast", ["learning-rate", "fast"]),
        ("train metalang --out r --schedule noma", ["schedule is 'noma'", "did you mean noam?"]),
        ("train metalang --out r --micro-batch-size 99", ["micro_batch_size is 99"]),
        ("evaluate metalang nowhere", ["nowhere", "no such file"]),
        ("run gpicl-fig5 --scale paper", ["text is 'data/pg19'", "neophyte data fetch pg19"]),
        ("run gpicl-fig33", ["experiment is 'gpicl-fig33'", "did you mean gpicl-fig3?"]),
        ("run gpicl-fig3 --scale enormous", ["scale", "enormous"]),
        ("run demo --scale paper", ["scale is 'paper'; allowed: smoke, laptop"]),
        ("run gpicl-table1 --jobs -1", ["jobs is -1"]),
        ("run gpicl-table1 --threads -1", ["threads is -1"]),
        ("bench metalang --order 0", ["order is 0"]),
        ("bench metalang --threads 0", ["threads is 0"]),
        ("bench metalang --sequences 0", ["sequences is 0"]),
        ("bench metalang --repeats 0", ["repeats is 0"]),
        ("bench metalang --context-length 0", ["context_length is 0"]),
        ("data fetch pg20", ["pg20"]),
        ("list --jsn", ["--jsn"]),
    ],
)
def test_bad_arguments(cli, tmp_path, command, words):
    assert_refused(cli(*command.split()), *words)
    assert not contents(tmp_path), "it wrote something"


def test_a_device_that_is_not_there(cli):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    assert_refused(cli("train", "metalang", "--out", "r", "--device", "cuda"), "device is 'cuda'", "cpu")


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """A small data set and a trained model, made once; tests work on copies."""
    folder = tmp_path_factory.mktemp("ready")
    from neophyte.cli import main

    for command in (
        ("generate", "metalang", "--out", folder / "data", *SMALL, "--quiet"),
        ("train", "metalang", "--out", folder / "run", *TRAIN),
    ):
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in command])
        assert not end.value.code
    return folder


@pytest.fixture
def data(ready, tmp_path):
    return shutil.copytree(ready / "data", tmp_path / "data")


@pytest.fixture
def run(ready, tmp_path):
    return shutil.copytree(ready / "run", tmp_path / "run")


def with_options(command, changes):
    """The command with these options in place of its own: no option may be given twice."""
    kept = list(command)
    for name in changes[::2]:
        if name in kept:
            del kept[kept.index(name) : kept.index(name) + 2]
    return (*kept, *changes)


def change_manifest(folder, change):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m["recipe"]["spec"].update(vocab_sise=3), ["vocab_sise is not a field", "did you mean vocab_size?"]),
        (lambda m: m["recipe"]["spec"].update(vocab_size=1), ["vocab_size is 1"]),
        (lambda m: m["recipe"].update(task="metalang@99"), ["task is 'metalang@99'", "metalang@1"]),
        (lambda m: m["recipe"].update(task="mazeworld@1"), ["task is 'mazeworld@1'"]),
        (lambda m: m.update(format="csv"), ["manifest.json", "is not the manifest of a data set"]),
        (lambda m: m.update(complete=False), ["is unfinished", "run the same generate command again"]),
        (lambda m: m["recipe"].update(seed=1), ["shard-00000.npy: differs from what its recipe draws"]),
        (lambda m: m["shards"].pop(), ["shard-00002.npy: is not in the manifest"]),
    ],
)
def test_a_manifest_that_was_changed(cli, data, change, words):
    change_manifest(data, change)
    before = contents(data)
    assert_refused(cli("verify", data, "--quiet"), *words)
    assert contents(data) == before


@pytest.mark.parametrize("content", ["", "{", "[]", "null"])
def test_a_manifest_that_is_none(cli, data, content):
    (data / "manifest.json").write_text(content)
    before = contents(data)
    for command in (("verify", data, "--quiet"), ("generate", "metalang", "--out", data, *SMALL, "--quiet")):
        assert_refused(cli(*command), "manifest.json")
    assert contents(data) == before


def truncated(path):
    path.write_bytes(path.read_bytes()[:-10])


def emptied(path):
    path.write_bytes(b"")


def foreign(path):
    with path.open("wb") as file:
        np.save(file, np.zeros((16, 24), dtype=np.uint8))


@pytest.mark.parametrize("damage", [truncated, emptied, foreign, lambda path: path.unlink()])
def test_a_damaged_shard(cli, data, damage):
    damage(data / "shard-00001.npy")
    before = contents(data)
    for command in (("verify", data, "--quiet"), ("generate", "metalang", "--out", data, *SMALL, "--quiet")):
        assert_refused(cli(*command), str(data / "shard-00001.npy"))
    # Also where there is still something to write.
    change_manifest(data, lambda m: (m["shards"].pop(), m.update(complete=False)))
    before = contents(data)
    assert_refused(cli("generate", "metalang", "--out", data, *SMALL, "--quiet"), str(data / "shard-00001.npy"))
    assert contents(data) == before


def test_a_shard_of_another_data_set_whose_hash_was_forged(cli, data):
    foreign(data / "shard-00001.npy")
    change_manifest(data, lambda m: m["shards"][1].update(sha256=sha256_file(data / "shard-00001.npy")))
    assert_refused(cli("verify", data, "--quiet"), "shard-00001.npy: differs from what its recipe draws")


@pytest.mark.parametrize(
    "changes",
    [("--seed", 1), ("--order", 5), ("--num-sequences", 41), ("--shard-size", 8), ("--split", "eval")],
    ids=str,
)
def test_generate_into_another_data_set(cli, data, changes):
    before = contents(data)
    command = ("generate", "metalang", "--out", data, *SMALL, "--quiet")
    assert_refused(cli(*with_options(command, changes)), str(data), "holds another data set")
    assert contents(data) == before


@pytest.mark.parametrize(
    "command",
    [("generate", "metalang", *SMALL, "--quiet"), ("train", "metalang", *TRAIN)],
    ids=["generate", "train"],
)
def test_writing_into_a_folder_of_other_files(cli, tmp_path, command):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years of work")
    assert_refused(cli(*command, "--out", "home"), "home", "holds files")
    assert_refused(cli(*command, "--out", "home/thesis.tex"), "thesis.tex")
    assert contents(tmp_path) == {"home/thesis.tex": b"years of work"}


def test_train_where_data_lies_and_generate_where_a_run_lies(cli, data, run):
    before = contents(data), contents(run)
    assert_refused(cli("train", "metalang", "--out", data, *TRAIN), "data", "holds files")
    assert_refused(cli("generate", "metalang", "--out", run, *SMALL, "--quiet"), "run", "holds files")
    assert (contents(data), contents(run)) == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (("--schedule", "cosine"), ["train schedule is 'noam' there, 'cosine' here"]),
        (("--seed", 1), ["train seed is 0 there, 1 here"]),
        (("--corpus-seed", 1), ["data seed is 0 there, 1 here"]),
        (("--order", 5), ["data task is"]),
        (("--context-length", 17), ["data context_length is 16 there, 17 here"]),
        (("--model", "laptop-3x64"), ["config d_model is 32 there, 64 here"]),
    ],
)
def test_train_into_another_run(cli, run, changes, words):
    before = contents(run)
    command = ("train", "metalang", "--out", run, *TRAIN)
    assert_refused(cli(*with_options(command, changes)), "holds another run", *words)
    assert contents(run) == before


def test_run_where_another_scale_lies(cli, tmp_path):
    folder = tmp_path / "out" / "gpicl-fig3"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text('{"experiment": "gpicl-fig3", "scale": "paper"}')
    before = contents(tmp_path)
    assert_refused(cli("run", "gpicl-fig3", "--out", "out"), "gpicl-fig3: holds the scale 'paper'")
    assert contents(tmp_path) == before


def test_run_where_a_manifest_is_none(cli, tmp_path):
    (tmp_path / "out" / "gpicl-fig3").mkdir(parents=True)
    (tmp_path / "out" / "gpicl-fig3" / "manifest.json").write_text("[]")
    assert_refused(cli("run", "gpicl-fig3", "--out", "out"), "manifest.json: is not an experiment's manifest")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("run.json", "[]", ["run.json: is not the record of a training run"]),
        ("run.json", '{"config": "x", "train": {}, "data": {}}', ["run.json: is not the record of a training run"]),
        ("run.json", '{"config": {}, "train": {}, "data": {}}', ["run.json: is not the record of a training run"]),
        ("metrics.jsonl", "{]\n", ["metrics.jsonl: holds the damaged line '{]'"]),
        ("metrics.jsonl", "[]\n", ["metrics.jsonl: holds the damaged line '[]'"]),
        ("training.json", "{}", ["training.json: is damaged"]),
        ("optimizer.pt", {"random_state": {}}, ["optimizer.pt: is not this run's optimizer"]),
        ("optimizer.pt", {"optimizer": {"state": {}, "param_groups": []}}, ["optimizer.pt: is not this run's"]),
        ("optimizer.pt", [1], ["optimizer.pt: is not this run's optimizer"]),
    ],
)
def test_a_run_whose_file_is_damaged(cli, run, name, content, words):
    path = next(run.rglob(name))
    if name == "optimizer.pt":
        torch.save(content, path)
    else:
        path.write_text(content)
    before = contents(run)
    command = ("train", "metalang", "--out", run, *TRAIN)
    assert_refused(cli(*with_options(command, ("--steps", 6))), *words)
    assert contents(run) == before


def evaluate(run, *options):
    command = ("evaluate", "metalang", run, "--preset", "tiny-eval", "--sequences", 1, "--context-length", 16,
               "--device", "cpu", "--quiet")  # fmt: skip
    return with_options(command, options)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"d_model": 64}, ["model.safetensors: holds the weights of another architecture"]),
        ({"num_layers": 3}, ["model.safetensors: holds the weights of another architecture"]),
        ({"vocab_size": 33}, ["model.safetensors: holds the weights of another architecture"]),
        ({"model": "neophyte.models.no_such:Model"}, ["which cannot be imported"]),
        # What a stranger's folder names is not run.
        (
            {"model": "subprocess:call", "args": "touch owned", "shell": True},
            ["code outside neophyte", "--trust-model"],
        ),
        ({"model": "neophyte.core.files:write_text"}, ["code outside neophyte"]),
        ({"model": "neophyte.models.loading:load_model", "folder": "."}, ["which is no nn.Module class"]),
        ({"depth": 3}, ["Decoder does not take"]),
    ],
)
def test_a_checkpoint_of_another_architecture(cli, run, fields, words):
    path = next(run.rglob("config.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    before = contents(run)
    assert_refused(cli(*evaluate(run)), *words)
    assert contents(run) == before


def test_code_of_another_is_not_run_unless_it_is_trusted(cli, run, tmp_path):
    path = next(run.rglob("config.json"))
    config = json.loads(path.read_text())
    (tmp_path / "evil_model.py").write_text("import pathlib\npathlib.Path('ran').touch()\n")
    path.write_text(json.dumps({**config, "model": "evil_model:Model"}))
    assert_refused(cli(*evaluate(run)), "model is 'evil_model:Model', code outside neophyte")
    assert not (tmp_path / "ran").exists()
    assert_refused(cli(*evaluate(run, "--trust-model")), "which cannot be imported")
    assert (tmp_path / "ran").exists()


def test_curves_into_a_folder_of_other_files(cli, run, tmp_path):
    (tmp_path / "curves").mkdir()
    (tmp_path / "curves" / "thesis.tex").write_text("years of work")
    assert_refused(cli(*evaluate(run, "--curves", "curves")), "curves: holds files")
    assert contents(tmp_path / "curves") == {"thesis.tex": b"years of work"}


def test_a_damaged_checkpoint(cli, run):
    path = next(run.rglob("model.safetensors"))
    truncated(path)
    assert_refused(cli(*evaluate(run)), str(path), "is damaged")
    assert_refused(cli("train", "metalang", "--out", run, *TRAIN), str(path), "is damaged")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--sequences", 0), ["sequences is 0"]),
        (("--context-length", 0), ["context_length is 0"]),
        (("--context-length", 1), ["context_length is 1"]),
        (("--preset", "train"), ["preset is 'train'"]),
        (("--preset", "evil"), ["preset is 'evil'", "did you mean eval?"]),
        (("--device", "tpu"), ["device is 'tpu'"]),
        (("--threads", 0), ["threads is 0"]),
    ],
)
def test_bad_evaluations(cli, run, options, words):
    assert_refused(cli(*evaluate(run, *options)), *words)


def test_a_model_of_another_vocabulary(cli, tmp_path):
    assert cli("train", "metalang", "--out", "wide", *TRAIN, "--vocab-size", 40).code == 0
    assert_refused(cli(*evaluate("wide")), "wide: vocab_size is 40; allowed: 32")


BAD_TEXTS = [
    (b"", "is empty"),
    (b" \n\n ", "is empty"),
    (b"caf\xe9 " * 100, "is not UTF-8 (byte 3)"),
    (b"\xff\xfe" + "text".encode("utf-16-le"), "is not UTF-8"),
    (b"too short", "has 9 characters; allowed: at least context_length = 16"),
    ("日本語".encode() * 100, "has 0 characters"),
]


@pytest.mark.parametrize(("content", "message"), BAD_TEXTS)
def test_bad_texts(cli, run, tmp_path, content, message):
    (tmp_path / "book.txt").write_bytes(content)
    with pytest.raises(ValueError, match="book") as error:
        TextCorpus(tmp_path / "book.txt", context_length=16)
    assert message in str(error.value)
    assert_refused(cli(*evaluate(run, "--curves", "curves", "--text", "book.txt")), "book.txt", message)
    assert (tmp_path / "book.txt").read_bytes() == content
    assert not (tmp_path / "curves").exists()


def test_texts_that_are_not_there(cli, run, tmp_path):
    (tmp_path / "books").mkdir()
    for name, message in (("nowhere.txt", "text is 'nowhere.txt'"), ("books", "books: holds no .txt file")):
        assert_refused(cli(*evaluate(run, "--curves", "curves", "--text", name)), message)


WRITERS = {
    "generate": ("generate", "metalang", "--out", "disk/out", "--num-sequences", 4000, "--context-length", 100,
                 "--shard-size", 1000, "--no-calibrate", "--quiet"),
    "train": ("train", "metalang", "--out", "disk/out", *TRAIN, "--checkpoint-every", 1),
}  # fmt: skip


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("after", [0, 2, 4])
def test_a_disk_that_fills(cli, tmp_path, monkeypatch, writer, after):
    sync, calls = os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    assert_refused(cli(*WRITERS[writer]), "disk/out/", "No space left on device")
    assert not [path for path in contents(tmp_path) if path.endswith(".tmp") and "/.step-" not in path]
    # With room again the same command goes on.
    monkeypatch.setattr(os, "fsync", sync)
    assert cli(*WRITERS[writer]).code == 0
    if writer == "generate":
        assert cli("verify", "disk/out", "--quiet").code == 0


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of a given size, where this process may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(*options):
        if os.name == "nt" or os.geteuid() != 0 or not shutil.which("mount"):
            pytest.skip("only root mounts file systems")
        command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("this machine mounts no tmpfs")

    yield mount
    subprocess.run(["umount", str(folder)], capture_output=True, check=False)


@pytest.mark.parametrize(("writer", "kilobytes"), [("generate", 250), ("train", 100), ("train", 200), ("train", 300)])
def test_a_disk_that_is_full(cli, tmp_path, small_disk, writer, kilobytes):
    small_disk(f"size={kilobytes}k")
    assert_refused(cli(*WRITERS[writer]), "disk/out/")
    whole = {path: data for path, data in contents(tmp_path).items() if path.endswith((".npy", "run.json"))}
    assert whole
    small_disk("remount", "size=50m")
    assert cli(*WRITERS[writer]).code == 0
    after = contents(tmp_path)
    assert {path: after[path] for path in whole} == whole
    if writer == "generate":
        assert cli("verify", "disk/out", "--quiet").code == 0
