"""What the pvr commands do when all is well, and that what they print for programs parses."""

import json
import os
import re
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import torch

import neophyte
from neophyte import pvr
from neophyte.core import registry
from neophyte.core.shards import StoredArrays
from neophyte.evaluation.classification import measure
from neophyte.experiments.pvr.scales import table1_trials
from neophyte.models.loading import load_model
from tests.experiments.handmade import finish
from tests.pvr.test_banks import write_mnist

from .conftest import contents
from .test_commands import parsed

SMALL = ("--num-examples", 60, "--epochs", 2, "--test-examples", 100, "--device", "cpu", "--quiet")
MLP = ("--model-args", '{"embedding_dim": 8, "widths": [32, 16]}')
BLOCKS = ("--preset", "digits-iid-train", "--model", "resnet18", "--num-examples", 20, "--batch-size", 10, "--epochs",
          1, "--test-examples", 30, "--device", "cpu", "--quiet")  # fmt: skip


def test_list_names_the_family(cli):
    shown = parsed(cli("list", "--json"))
    assert {task.name for task in registry.tasks("pvr")} <= shown["tasks"].keys()
    assert "pvr-fig9" in shown["experiments"]


# Sample


@pytest.mark.parametrize(
    ("options", "preset", "changes"),
    [
        ((), "m2-train", {}),
        (("--preset", "m1-test", "--seed", 3, "--split", "other"), "m1-test", {"seed": 3, "split": "other"}),
        (("--window", 4, "--aggregation", "median", "--window-end", "truncate"), "m2-train",
         {"window": 4, "aggregation": "median", "window_end": "truncate"}),
        (("--preset", "m1-train", "--no-pointer", "--pointer-position", 2), "m1-train",
         {"pointer": False, "pointer_position": 2}),
        (("--preset", "two-hop-m0-train"), "two-hop-m0-train", {}),
        (("--preset", "variable-m2-train"), "variable-m2-train", {}),
        (("--preset", "holdout-m1-test"), "holdout-m1-test", {}),
    ],
    ids=str,
)  # fmt: skip
def test_sample_shows_the_task(cli, options, preset, changes):
    shown = parsed(cli("sample", "pvr", 7, "--count", 5, *options, "--json"))
    source = pvr.tokens(preset, **changes)
    batch, known = source.batch(np.arange(7, 12)), source.variables(np.arange(7, 12))
    assert [one["index"] for one in shown] == [7, 8, 9, 10, 11]
    assert [one["tokens"] for one in shown] == batch.tokens.tolist()
    assert [one["label"] for one in shown] == batch.labels.tolist()
    assert [one["pointer"] for one in shown] == known.pointers.tolist()
    assert [one["start"] for one in shown] == known.starts.tolist()
    assert [one["mask"] for one in shown] == known.mask.tolist()
    assert [one["window"] for one in shown] == [[v for v in line if v >= 0] for line in known.windows.tolist()]


def lines_of(result):
    assert result.code == 0, result.err
    return result.out.splitlines()


def read_line(line):
    """What a line of tokens says: its name, the tokens, those in < >, those in [ ], the window's values, the label."""
    name, _, rest = line.strip().partition("  ")
    tokens, _, rule = rest.rpartition("   ")
    found = re.findall(r"([<\[]?)(\d+)[>\]]?", tokens)
    values, label = re.fullmatch(r"\w+\(([\d, ]+)\) = (\d+)", rule.strip()).groups()
    places = {wanted: [i for i, (mark, _) in enumerate(found) if mark == wanted] for wanted in "<["}
    window = [int(value) for value in values.split(", ")]
    return name, [int(token) for _, token in found], places["<"], places["["], window, int(label)


@pytest.mark.parametrize(
    ("preset", "header"),
    [("m2-train", [0]), ("long-m2-train", [0, 1]), ("variable-m2-train", [0, 1]), ("maj_vote-m2-test", [0])],
)
def test_sample_in_words(cli, preset, header):
    said = lines_of(cli("sample", "pvr", 3, "--preset", preset, "--count", 4))
    source = pvr.tokens(preset)
    batch, known = source.batch(np.arange(3, 7)), source.variables(np.arange(3, 7))
    assert source.spec.aggregation in said[0]
    assert f"{source.spec.num_values} values" in said[0]
    assert len(said) == 5
    for i, line in enumerate(said[1:]):
        expected = (str(3 + i), batch.tokens[i].tolist(), header, np.flatnonzero(known.mask[i]).tolist(),
                    [v for v in known.windows[i].tolist() if v >= 0], int(batch.labels[i]))  # fmt: skip
        assert read_line(line) == expected


def test_sample_draws_one_by_default_and_the_pointer_where_it_stands(cli):
    said = lines_of(cli("sample", "pvr", "--pointer-position", 4))
    assert len(said) == 2
    assert read_line(said[1])[2] == [4]


def test_sample_shows_twins(cli):
    said = lines_of(cli("sample", "pvr", 2, "--count", 2, "--twins"))
    assert len(said) == 1 + 2 * 4
    twins = pvr.tokens("m2-train").twins([2, 3])
    for i in range(2):
        block = [read_line(line) for line in said[1 + 4 * i : 5 + 4 * i]]
        assert [line[0] for line in block] == [str(2 + i), "pointer", "value", "irrelevant"]
        for line, twin in zip(block[1:], (twins.pointer, twins.value, twins.irrelevant), strict=True):
            assert line[1] == twin.tokens[i].tolist()
            assert line[5] == twin.labels[i]


def test_twins_are_in_the_json_too(cli):
    shown = parsed(cli("sample", "pvr", "--twins", "--json"))
    twins = pvr.tokens("m2-train").twins([0])
    for name in ("pointer", "value", "irrelevant"):
        assert getattr(twins, name).tokens[0].tolist() in [found["tokens"] for found in shown[0]["twins"].values()], (
            "an option that was given has no effect"
        )


@pytest.mark.parametrize(
    ("preset", "count"),
    [("digits-iid-train", None), ("digits-holdout-test", 3), ("digits-sequence-train", 2), ("digits-iid-test", 9)],
)
def test_sample_draws_a_contact_sheet(cli, preset, count):
    options = ("--count", count) if count else ()
    result = cli("sample", "pvr", 5, "--preset", preset, "--out", "sheets/sheet.png", *options)
    assert result.code == 0, result.err
    assert result.out == f"sheets/sheet.png: {count or 16} examples of {preset}\n"
    assert [str(path) for path in Path().rglob("*") if path.is_file()] == ["sheets/sheet.png"]
    pixels = matplotlib.image.imread("sheets/sheet.png")
    assert min(pixels.shape[:2]) > 100
    assert pixels[..., :3].std() > 0.1


def test_sample_of_images_in_json(cli):
    shown = parsed(cli("sample", "pvr", 5, "--preset", "digits-holdout-test", "--count", 4, "--json"))
    found = pvr.images("digits-holdout-test").batch(np.arange(5, 9))
    assert [one["index"] for one in shown] == [5, 6, 7, 8]
    assert [one["classes"] for one in shown] == found.classes.tolist()
    assert [one["pointer"] for one in shown] == found.classes[:, 0].tolist()
    assert [one["start"] for one in shown] == found.pointers.tolist()
    assert [one["label"] for one in shown] == found.labels.tolist()
    assert not list(Path().iterdir())


def test_sample_of_images_takes_the_fields_that_they_have(cli):
    shown = parsed(cli("sample", "pvr", "--preset", "digits-iid-train", "--count", 5, "--window", 2, "--json"))
    found = pvr.images("digits-iid-train", window=2).batch(np.arange(5))
    assert [one["label"] for one in shown] == found.labels.tolist()


def test_sample_fetches_a_bank_where_it_is_told_to(cli, monkeypatch):
    asked = []

    def fetch(names, root):
        asked.append((sorted(names), str(root)))
        write_mnist(Path(root))

    monkeypatch.setattr("neophyte.pvr.fetch.fetch_missing", fetch)
    command = ("sample", "pvr", "--preset", "mnist-iid-train", "--count", 2, "--data", "banks", "--json")
    assert cli(*command).code == 2
    assert not asked
    assert len(parsed(cli(*command, "--download"))) == 2
    assert asked == [(["mnist"], "banks")]
    assert len(parsed(cli(*command))) == 2  # it is there now


# Data on disk


def test_generate_and_verify(cli, tmp_path):
    command = ("generate", "pvr", "--out", "data", "--preset", "m1-test", "--num-examples", 50, "--shard-size", 20,
               "--threads", 2, "--seed", 4)  # fmt: skip
    result = cli(*command)
    assert result.code == 0, result.err
    assert result.out == "data: 50 examples in 3 shards\n"
    source = pvr.tokens("m1-test", seed=4, num_examples=50)
    stored = StoredArrays("data").batch(range(50))
    assert stored.dtype == np.uint8
    np.testing.assert_array_equal(stored[:, :-1], source.batch(np.arange(50)).tokens)
    np.testing.assert_array_equal(stored[:, -1], source.batch(np.arange(50)).labels)
    for options, compared in (((), 16 + 16 + 10), (("--full",), 50)):
        result = cli("verify", "data", *options)
        assert result.code == 0
        assert result.out == f"data: 3 shards whole, {compared} of 50 samples redrawn: equal\n"
    before = contents(tmp_path)
    assert cli(*command).code == 0
    assert contents(tmp_path) == before


def test_images_have_options_of_their_own(cli):
    shown = parsed(cli("sample", "pvr", "--preset", "digits-iid-train", "--rows", 3, "--columns", 4, "--window", 2,
                       "--count", 2, "--json"))  # fmt: skip
    assert [len(one["classes"]) for one in shown] == [12, 12]
    assert "rows is not a field of TokenSpec" in cli("sample", "pvr", "--rows", 3).err
    assert "hops is not a field of VisualSpec" in cli("sample", "pvr", "--preset", "digits-iid-train", "--hops", 2).err


def test_certify(cli):
    shown = parsed(cli("certify", "pvr/m1-train", "pvr/m1-test", "--limit", 300, "--json"))
    assert shown["tasks"] == ["pvr/m1-train@1", "pvr/m1-test@1"]
    assert shown["splits"] == ["train", "test"]
    assert (shown["shared"], shown["repeated"], shown["checked"]) == (0, [0, 0], [300, 300])
    assert (shown["sizes"], shown["disjoint"], shown["complete"]) == ([100_000, 100_000], True, False)
    words = cli("certify", "pvr/digits-iid-train", "pvr/digits-iid-test", "--limit", 20)
    assert words.code == 0
    assert "0 of 20 samples of pvr/digits-iid-test@1 'test' are among 20 of pvr/digits-iid-train@1 'train'" in words.out


def test_certify_finds_what_two_splits_share(cli):
    # 16 bits and four to point: of 2^20 sequences, thousands of each split lie in both.
    result = cli("certify", "pvr/boolean-test", "--splits", "train", "eval", "--limit", 3000, "--json")
    assert result.code == 1
    shown = json.loads(result.out)
    assert shown["shared"] > 0
    assert not shown["disjoint"]


# Training and evaluation


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    from neophyte.cli import main

    folder = tmp_path_factory.mktemp("trained") / "run"
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in ("train", "pvr", "--out", folder, *SMALL, *MLP)])
    assert not end.value.code
    return folder


def test_train_says_what_came_out_and_leaves_a_finished_run_alone(cli, trained):
    before = contents(trained)
    result = cli("train", "pvr", "--out", trained, *SMALL, *MLP)
    assert result.code == 0
    assert contents(trained) == before
    model, _ = load_model(trained)
    score = measure(model, pvr.tokens("m0-test"), 100, device=torch.device("cpu"))
    said = f"3,626 parameters, 2 steps on 60 examples, test accuracy {score.accuracy:.4f} [{score.low:.4f}, "
    assert said in result.out
    recorded = json.loads((trained / "run.json").read_text())
    spec = recorded["train"]
    assert (spec["optimizer"], spec["learning_rate"], spec["momentum"], spec["weight_decay"]) == (
        "sgd",
        0.05,
        0.9,
        1e-5,
    )
    assert (spec["batch_size"], spec["epoch_size"], spec["schedule"], spec["final_rate"]) == (1024, 60, "cosine", 0.0)
    assert recorded["config"] == {
        "model": "neophyte.models.classifiers:TokenMLP", "length": 11, "alphabet": 10, "num_classes": 10,
        "embedding_dim": 8, "widths": [32, 16],
    }  # fmt: skip
    assert (recorded["data"]["num_examples"], recorded["data"]["split"], recorded["data"]["seed"]) == (60, "train", 0)
    lines = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    assert lines[-1]["test_accuracy"] == score.accuracy


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ((), {"steps": 800, "warmup_steps": 10, "evaluate_every": 80}),
        (("--epochs", 30), {"steps": 30}),
        (("--steps", 7, "--optimizer", "adam", "--learning-rate", 1e-3), {"steps": 7, "optimizer": "adam",
                                                                        "learning_rate": 1e-3}),
        (("--batch-size", 7, "--epochs", 20), {"steps": 180, "batch_size": 7, "warmup_steps": 90}),
        (("--preset", "boolean-train", "--seed", 5, "--epochs", 20), {"steps": 20, "seed": 5}),
        (("--preset", "digits-iid-train", "--model", "resnet18"), {"steps": 20, "batch_size": 50, "optimizer": "adam",
                                                                  "learning_rate": 1e-4, "schedule": "constant"}),
    ],
)  # fmt: skip
def test_train_takes_the_papers_recipe_and_what_is_given(cli, monkeypatch, options, fields):
    seen = []

    class Stop(Exception):  # noqa: N818
        pass

    def train(config, spec, *arguments, **more):
        seen.append(spec)
        raise Stop

    monkeypatch.setattr("neophyte.training.loop.train", train)
    with pytest.raises(Stop):
        cli("train", "pvr", "--out", "run", "--num-examples", 60, "--device", "cpu", "--quiet", *options)
    assert {name: getattr(seen[0], name) for name in fields} == fields


def test_train_on_another_training_set_is_other_data(cli, trained):
    cli("train", "pvr", "--out", "other", *SMALL, *MLP, "--data-seed", 5)
    one, two = (
        json.loads((folder / "metrics.jsonl").read_text().splitlines()[0]) for folder in (trained, Path("other"))
    )
    assert one["loss_nats"] != two["loss_nats"]


def test_evaluate_prints_accuracy_and_controls(cli, trained):
    shown = parsed(cli("evaluate", "pvr", trained, "--examples", 300, "--device", "cpu", "--json"))
    model, _ = load_model(trained)
    source = pvr.tokens("m0-test")
    score = measure(model, source, 300, device=torch.device("cpu"))
    assert shown["accuracy"] == score.accuracy
    assert (shown["low"], shown["high"], shown["examples"]) == (score.low, score.high, 300)
    assert shown["loss_nats"] == pytest.approx(score.loss_nats)
    errors = source.losses(np.arange(300))
    assert shown["controls"] == {name: pytest.approx(1 - values.mean()) for name, values in errors.items()}
    assert shown["controls"]["oracle"] == 1.0
    assert (shown["preset"], shown["checkpoint"]) == ("m0-test", str(trained))
    words = cli("evaluate", "pvr", trained, "--examples", 300, "--device", "cpu").out
    assert f"{score.accuracy:.3f}" in words
    assert f"95 % interval [{score.low:.4f}, {score.high:.4f}], 300 examples; controls on 300" in words
    for name in shown["controls"]:
        assert name in words


def test_evaluate_on_another_task_of_the_same_form(cli, trained):
    command = ("evaluate", "pvr", trained, "--examples", 50, "--device", "cpu", "--json")
    assert parsed(cli(*command, "--preset", "m3-test"))["preset"] == "m3-test"
    found = parsed(cli(*command, "--preset", "holdout-m1-test"))
    assert found["controls"]["constant"] == 1.0  # the flaw of the paper's protocol


def test_blocks_of_images_are_trained_on_and_evaluated(cli):
    result = cli("train", "pvr", "--out", "blocks", *BLOCKS)
    assert result.code == 0, result.err
    assert "blocks: 11,181,642 parameters, 2 steps on 20 examples, test accuracy 0." in result.out
    recorded = json.loads(Path("blocks/run.json").read_text())
    assert (recorded["train"]["optimizer"], recorded["train"]["schedule"]) == ("adam", "constant")
    shown = parsed(cli("evaluate", "pvr", "blocks", "--preset", "digits-iid-test", "--examples", 20, "--device", "cpu",
                       "--json"))  # fmt: skip
    model, _ = load_model("blocks")
    score = measure(model, pvr.images("digits-iid-test"), 20, device=torch.device("cpu"), batch_size=100)
    assert shown["accuracy"] == score.accuracy
    assert shown["controls"].keys() == {"oracle", "constant", "first_cell"}


OWN = """
from torch import nn

class Bag(nn.Module):
    def __init__(self, length, alphabet, num_classes, hidden=4):
        super().__init__()
        self.embedding = nn.Embedding(alphabet, hidden)
        self.head = nn.Linear(length * hidden, num_classes)

    def forward(self, tokens):
        return self.head(self.embedding(tokens.long()).flatten(1))
"""


def test_anybodys_model_trains_and_is_evaluated(cli, monkeypatch):
    # The console script has its own folder on the module path, and not the current one.
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    monkeypatch.delitem(sys.modules, "my_bag", raising=False)
    Path("my_bag.py").write_text(OWN)
    train = ("train", "pvr", "--model", "my_bag.Bag", "--model-args", '{"hidden": 6}', "--out", "bag", *SMALL)
    assert "bag: 730 parameters, 2 steps" in cli(*train).out
    config = json.loads(next(Path("bag").rglob("config.json")).read_text())
    assert config == {"model": "my_bag:Bag", "length": 11, "alphabet": 10, "num_classes": 10, "hidden": 6}
    evaluate = ("evaluate", "pvr", "bag", "--examples", 50, "--device", "cpu", "--json")
    refused = cli(*evaluate)
    assert (refused.code, refused.out) == (2, "")
    assert "--trust-model" in refused.err
    assert 0 <= parsed(cli(*evaluate, "--trust-model"))["accuracy"] <= 1


def test_anybodys_aggregation_is_a_task(cli, monkeypatch):
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    monkeypatch.delitem(sys.modules, "my_rule", raising=False)
    Path("my_rule.py").write_text("def last(windows):\n    return windows[:, -1]\n")
    shown = parsed(cli("sample", "pvr", "--aggregation", "my_rule:last", "--count", 20, "--json"))
    assert [one["label"] for one in shown] == [one["window"][-1] for one in shown]


# The others


def test_bench_has_the_agreed_form(cli):
    sizes = ("--examples", 40_000, "--repeats", 2)
    shown = parsed(cli("bench", "pvr", "--window", 1, 3, "--threads", 1, 2, *sizes, "--json", "--quiet"))
    assert shown.keys() == {"family", "version", "machine", "results"}
    assert (shown["family"], shown["version"]) == ("pvr", neophyte.__version__)
    assert shown["machine"]["cores"] == os.cpu_count()
    for result in shown["results"]:
        assert result.keys() == {"name", "value", "unit", "threads", "params"}
        assert result["value"] > 0
        assert result["unit"] == {"tokens": "examples/s", "images": "images/s"}[result["name"]]
    found = [r for r in shown["results"] if r["name"] == "tokens"]
    kinds = ("mod_sum", "median", "maj_vote", "min", "max")
    keys = [(r["params"]["aggregation"], r["params"]["window"], r["threads"]) for r in found]
    assert sorted(keys) == sorted((kind, window, count) for kind in kinds for window in (1, 3) for count in (1, 2))
    assert all(r["params"].keys() == {"window", "aggregation", "n"} and r["params"]["n"] == 10 for r in found)
    blocks = [r for r in shown["results"] if r["name"] == "images"]
    assert [r["threads"] for r in blocks] == [1, 2]
    assert {json.dumps(r["params"]) for r in blocks} == {
        json.dumps({"preset": "digits-iid-train", "height": 24, "width": 24, "channels": 1})
    }
    words = cli("bench", "pvr", "--window", 1, "--threads", 1, *sizes)
    assert words.code == 0
    assert "maj_vote" in words.out
    assert "images/s" in words.out


def test_bench_fetches_the_banks_of_its_blocks(cli, monkeypatch):
    asked = set()
    monkeypatch.setattr("neophyte.pvr.fetch.fetch_missing", lambda names, root: asked.update(names))
    cli("bench", "pvr", "--block", "cifar10-iid-train", "--window", 1, "--threads", 1, "--examples", 1000, "--download")
    assert asked == {"mnist", "cifar10"}


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_image_banks_are_fetched(cli, monkeypatch, name):
    asked = []

    def fetch(wanted, root):
        asked.append((wanted, root))
        return Path(root) / "folder"

    monkeypatch.setattr("neophyte.pvr.fetch.fetch_images", fetch)
    result = cli("data", "fetch", name)
    assert (result.code, result.out) == (0, f"data/folder: {name} is complete\n")
    assert cli("data", "fetch", name, "--out", "elsewhere").out == f"elsewhere/folder: {name} is complete\n"
    assert asked == [(name, Path("data")), (name, Path("elsewhere"))]


def test_run_prints_json(cli, tmp_path):
    (trial,) = table1_trials("smoke")
    rows = [{"model": "mlp", "parameters": 1_445_194, "published_count": 1_445_194}]
    finish(trial, tmp_path / "out", rows)
    shown = parsed(cli("run", "pvr-table1", "--out", "out", "--json", "--quiet"))
    assert (shown["experiment"], shown["scale"]) == ("pvr-table1", "smoke")
    assert [claim["verdict"] for claim in shown["claims"]] == ["holds"]
    assert all(Path(file).exists() for file in shown["files"])
    words = cli("run", "pvr-table1", "--out", "out")
    assert words.code == 0
    assert "1,445,194" in words.out
    assert "[1/1] count-classifiers skipped" in words.err


def test_run_fetches_what_its_trials_read(cli, monkeypatch):
    asked = []
    monkeypatch.setattr("neophyte.experiments.pvr.scales.fetch_missing", lambda *call: asked.append(call))
    result = cli("run", "pvr-fig6", "--scale", "laptop", "--download", "--quiet")
    assert asked == [({"mnist"}, "data")]
    assert result.code == 2  # our fetch brought nothing
    assert "neophyte data fetch mnist" in result.err
