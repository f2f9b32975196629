"""What the commands do when all is well, and that what they print for programs parses."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

import neophyte.core
from neophyte import metalang
from neophyte.core import contract, registry
from neophyte.core.contract import Certificate
from neophyte.core.shards import StoredArrays
from neophyte.evaluation.language import official_score
from neophyte.evaluation.networks import model_predictor
from neophyte.experiments.metalang.scales import counting_trial
from neophyte.experiments.registry import EXPERIMENTS
from neophyte.metalang import TextCorpus
from neophyte.models.loading import load_model
from neophyte.models.presets import CLASSIFIERS, PRESETS
from tests.experiments.handmade import finish

from .conftest import contents

SOURCES = Path(neophyte.core.__file__).parents[2]
TRAIN = ("--model", "laptop-2x32", "--context-length", 32, "--order", 1, 2, "--steps", 12, "--batch-size", 4,
         "--learning-rate", 3e-3, "--warmup-steps", 3, "--schedule", "cosine", "--log-every", 4, "--device", "cpu",
         "--quiet")  # fmt: skip


def refuse(constant):
    raise AssertionError(f"{constant} is no JSON")


def parsed(result):
    """The JSON that a command printed: one value, nothing around it, and no NaN or Infinity."""
    assert result.code == 0, result.err
    return json.loads(result.out, parse_constant=refuse)


def test_list(cli):
    shown = parsed(cli("list", "--json"))
    assert list(shown["tasks"]) == [task.name for task in registry.tasks()]
    assert list(shown["experiments"]) == list(EXPERIMENTS)
    assert shown["models"] == {**PRESETS, **CLASSIFIERS}
    words = cli("list").out
    for name in (*shown["tasks"], *shown["experiments"], *shown["models"]):
        assert name in words


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ((), {}),
        (("--seed", 3, "--split", "other"), {"seed": 3, "split": "other"}),
        (("--law", "joint", "--order", 2, "--no-calibrate", "--lam", 3), {"law": "joint", "orders": (2,),
                                                                         "calibrate": False, "lam": 3.0}),
        (("--vocab-size", 100, "--entropy-band", 0.6, 1.2), {"vocab_size": 100, "entropy_band": (0.6, 1.2)}),
    ],
    ids=str,
)  # fmt: skip
def test_sample_shows_the_corpus(cli, options, changes):
    shown = parsed(cli("sample", "metalang", 7, "--length", 50, *options, "--json"))
    corpus = metalang.corpus("train", **changes)
    batch = corpus.batch([7], nll=True)
    assert shown["tokens"] == batch.tokens[0, :50].tolist()
    np.testing.assert_allclose(shown["nll_nats"], batch.nll[0, :50], atol=1e-5)
    assert shown["order"] == batch.orders[0]
    assert shown["mean_nll_nats"] == pytest.approx(batch.nll[0, :50].mean(), rel=1e-5)
    assert (shown["split"], shown["seed"]) == (corpus.split, corpus.seed)


def test_sample_in_words(cli):
    result = cli("sample", "metalang", 2, "--preset", "tiny-train", "--length", 60)
    tokens = metalang.corpus("tiny-train")[2][:60]
    letters = "".join("abcdefghijklmnopqrstuvwxyz0123456789"[token] for token in tokens)
    assert letters in result.out.replace("\n", "")
    assert "order 2" in result.out
    numbers = cli("sample", "metalang", "--vocab-size", 300, "--hidden-dim", 8, "--length", 20)
    tokens = metalang.corpus("train", vocab_size=300, hidden_dim=8)[0][:20]
    assert " ".join(map(str, tokens)) in " ".join(numbers.out.split())


def test_generate_and_verify(cli, tmp_path):
    command = ("generate", "metalang", "--out", "data", "--num-sequences", 50, "--context-length", 20, "--pilot-tokens",
               256, "--shard-size", 16, "--threads", 2)  # fmt: skip
    result = cli(*command)
    assert result.code == 0
    assert "data: 50 sequences of 20 tokens in 4 shards" in result.out
    corpus = metalang.corpus("tiny-train", num_sequences=50, context_length=20, pilot_tokens=256)
    np.testing.assert_array_equal(StoredArrays("data").batch(range(50)), corpus.batch(np.arange(50)).tokens)
    for options, compared in (((), 16 * 3 + 2), (("--full",), 50)):
        result = cli("verify", "data", *options)
        assert result.code == 0
        assert result.out == f"data: 4 shards whole, {compared} of 50 samples redrawn: equal\n"
    before = contents(tmp_path)
    assert cli(*command).code == 0
    assert contents(tmp_path) == before


def test_certify(cli):
    shown = parsed(cli("certify", "metalang/tiny-train", "--limit", 300, "--json"))
    assert shown["tasks"] == ["metalang/tiny-train@1"] * 2
    assert (shown["shared"], shown["repeated"]) == (0, [0, 0])
    assert (shown["checked"], shown["sizes"]) == ([300, 300], [65_536, 65_536])
    assert (shown["disjoint"], shown["complete"]) == (True, False)
    words = cli("certify", "metalang/tiny-train", "--limit", 20, "--splits", "train", "other")
    assert words.code == 0
    assert "0 of 20 samples of metalang/tiny-train@1 'other' are among 20 of metalang/tiny-train@1 'train'" in words.out
    words = cli("certify", "metalang/tiny-train", "metalang/tiny-eval", "--limit", 20)
    assert words.code == 0
    assert "0 of 20 samples of metalang/tiny-eval@1 'eval' are among 20 of metalang/tiny-train@1 'train'" in words.out


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_splits_that_share_samples_end_with_status_1(cli, monkeypatch, options):
    found = Certificate(("a", "a"), ("train", "eval"), (10, 10), (10, 10), shared=3, repeated=(0, 0))
    monkeypatch.setattr(contract, "certify", lambda *arguments, **options: found)
    result = cli("certify", "metalang/tiny-train", *options)
    assert result.code == 1
    assert "3" in result.out


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    from neophyte.cli import main

    folder = tmp_path_factory.mktemp("trained") / "run"
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in ("train", "metalang", "--out", folder, *TRAIN)])
    assert not end.value.code
    return folder


def test_train_says_what_came_out_and_leaves_a_finished_run_alone(cli, trained):
    before = contents(trained)
    result = cli("train", "metalang", "--out", trained, *TRAIN)
    assert result.code == 0
    assert "27,360 parameters, 12 steps, loss " in result.out
    assert contents(trained) == before
    recorded = json.loads((trained / "run.json").read_text())
    assert recorded["train"]["learning_rate"] == 3e-3
    assert recorded["config"] == {"model": "neophyte.models.decoder:Decoder", "vocab_size": 32,
                                  **PRESETS["laptop-2x32"]}  # fmt: skip
    assert recorded["data"]["context_length"] == 32
    assert recorded["environment"]["packages"]["torch"]


def test_train_on_another_corpus_is_other_data(cli, trained):
    cli("train", "metalang", "--out", "other", *TRAIN, "--corpus-seed", 5)
    one, two = (
        json.loads((folder / "metrics.jsonl").read_text().splitlines()[0]) for folder in (trained, Path("other"))
    )
    assert one["loss_nats"] != two["loss_nats"]


EVALUATE = ("--preset", "tiny-eval", "--context-length", 32, "--device", "cpu", "--quiet")


@pytest.mark.parametrize("sequences", [1, 3])
def test_evaluate_prints_the_score(cli, trained, sequences):
    shown = parsed(cli("evaluate", "metalang", trained, *EVALUATE, "--sequences", sequences, "--json"))
    model, _ = load_model(trained)
    score = official_score(model_predictor(model), preset="tiny-eval", sequences=sequences, context_length=32)
    assert shown["regret"] == pytest.approx(score.regret, rel=1e-5)
    assert shown["by_order"] == {str(order): pytest.approx(value, rel=1e-5) for order, value in score.by_order.items()}
    assert shown["official"] is False
    assert shown["checkpoint"] == str(trained)
    if sequences > 1:
        assert shown["low"] < shown["regret"] < shown["high"]
    else:
        assert (shown["low"], shown["high"]) == (None, None)
    words = cli("evaluate", "metalang", trained, *EVALUATE, "--sequences", sequences).out
    assert f"score (not the official one): {score.regret:.4f} nats" in words


def test_only_the_official_sizes_are_official(cli, trained, monkeypatch):
    def short(predict, **options):
        return official_score(predict, **{**options, "sequences": 1, "context_length": 16})

    monkeypatch.setattr("neophyte.evaluation.language.official_score", short)
    for options, official in [
        ((), True),
        (("--sequences", 4096), True),
        (("--sequences", 8), False),
        (("--context-length", 64), False),
        (("--preset", "tiny-eval"), False),
    ]:
        shown = parsed(cli("evaluate", "metalang", trained, "--device", "cpu", "--quiet", "--json", *options))
        assert shown["official"] is official


def test_evaluate_draws_curves_on_any_text(cli, trained):
    Path("book.txt").write_text("the same words again and again, " * 40)
    assert len(TextCorpus("book.txt", context_length=32)) > 4
    result = cli(
        "evaluate", "metalang", trained, *EVALUATE, "--sequences", 4, "--curves", "curves", "--text", "book.txt"
    )
    assert result.code == 0, result.err
    with open("curves/table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    curves = {(row["predictor"], row["group"]) for row in rows if row["kind"] == "curve"}
    assert {group for name, group in curves if name == "run"} == {"2", "3", "4", "text"}
    assert {name for name, group in curves if group == "text"} == {
        "run", "uniform", "unigram", "ngram", "ngram_mixture", "induction"
    }  # fmt: skip
    assert {row["sequences"] for row in rows if row["kind"] == "curve"} == {"4"}
    assert matplotlib.image.imread("curves/curves.png")[..., :3].std() > 0.05


def test_bench_has_the_agreed_form(cli):
    sizes = ("--context-length", 64, "--sequences", 4, "--repeats", 2)
    shown = parsed(cli("bench", "metalang", "--order", 2, 3, "--threads", 1, 2, *sizes, "--json"))
    assert shown.keys() == {"family", "version", "machine", "results"}
    assert (shown["family"], shown["version"]) == ("metalang", neophyte.__version__)
    assert shown["machine"]["cores"] == os.cpu_count()
    for result in shown["results"]:
        assert result.keys() == {"name", "value", "unit", "threads", "params"}
        assert result["value"] > 0
        assert result["unit"] == ("bytes" if result["name"] == "peak_memory" else "tokens/s")
    made = [r for r in shown["results"] if r["name"].startswith("generate")]
    assert {(r["name"], r["params"]["law"], r["params"]["order"], r["threads"]) for r in made} == {
        (name, law, order, threads)
        for name in ("generate", "generate_calibrated")
        for law in ("additive", "joint")
        for order in (2, 3)
        for threads in (1, 2)
    }
    assert all(r["params"]["context_length"] == 64 for r in made)
    assert [r["name"] for r in shown["results"][-2:]] == ["controls", "peak_memory"]
    assert 10e6 < shown["results"][-1]["value"] < 10e9
    words = cli(
        "bench", "metalang", "--order", 2, "--threads", 1, "--context-length", 64, "--sequences", 4, "--repeats", 1
    )
    assert words.code == 0
    assert "joint" in words.out


def test_run_prints_json(cli, tmp_path):
    rows = [{"model": "tiny", "parameters": 303_008, "published_count": 303_008, "paper": "303k"}]
    finish(counting_trial(), tmp_path / "out", rows)
    shown = parsed(cli("run", "gpicl-table1", "--out", "out", "--json", "--quiet"))
    assert (shown["experiment"], shown["scale"]) == ("gpicl-table1", "smoke")
    assert [claim["verdict"] for claim in shown["claims"]] == ["holds"]
    assert all(Path(file).exists() for file in shown["files"])
    words = cli("run", "gpicl-table1", "--out", "out")
    assert words.code == 0
    assert "303,008" in words.out
    assert "[1/1] count-language-models skipped" in words.err


def test_a_trial_that_fails_ends_with_status_1_and_its_log(cli, monkeypatch):
    monkeypatch.setattr("neophyte.experiments.metalang.scales._HERE", "no_such_module")
    result = cli("run", "gpicl-table1", "--out", "out", "--quiet")
    assert result.code == 1
    assert "neophyte: 1 of 1 trials failed:" in result.err
    assert "No module named 'no_such_module'" in result.err
    assert "log.txt" in result.err


BOOKS = ["It was a bright cold day in April. " * 20, "Call me Ishmael; some years ago, never mind. " * 20]


@pytest.fixture
def fetch(tmp_path):
    """Run `neophyte data fetch pg19` off line, with the caches of datasets in a folder of the test's own."""

    def run(*arguments):
        environment = {**os.environ, "PYTHONPATH": str(SOURCES), "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
        command = [sys.executable, "-m", "neophyte", "data", "fetch", "pg19", *arguments]
        return subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
        )

    return run


def write_parquet(path, columns):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    path.parent.mkdir(exist_ok=True)
    parquet.write_table(pyarrow.table(columns), path)


def test_books_are_fetched_from_a_local_folder(fetch, tmp_path):
    pytest.importorskip("datasets")
    titles = {"short_book_title": ["1984", "Moby"], "publication_date": [1949, 1851]}
    write_parquet(tmp_path / "books" / "test-00000-of-00001.parquet", {**titles, "text": BOOKS})
    done = fetch("--source", "books", "--out", "pg19")
    assert done.returncode == 0, done.stderr
    assert "pg19: 2 books" in done.stdout
    assert [path.read_text() for path in sorted((tmp_path / "pg19").iterdir())] == BOOKS
    corpus = TextCorpus(tmp_path / "pg19", context_length=100)
    assert len(corpus) == sum(map(len, BOOKS)) // 100
    text, shown = "it was a bright cold day in april. " * 3, corpus[0]
    codes = corpus.injection(0)
    symbols = metalang.text.SYMBOLS
    assert "".join(symbols[int(np.flatnonzero(codes == token)[0])] for token in shown) == text[:100]


@pytest.mark.parametrize("kind", ["another column", "a hub name"])
def test_what_cannot_be_fetched_is_one_line(fetch, tmp_path, kind):
    pytest.importorskip("datasets")
    source = {"another column": "books", "a hub name": "nobody/no-such-set"}[kind]
    if kind == "another column":
        write_parquet(tmp_path / "books" / "test.parquet", {"body": BOOKS})
    done = fetch("--source", source, "--out", "pg19")
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line.startswith("neophyte: ")]
    assert len(lines) == 1, done.stderr
    assert done.stderr.endswith(lines[0] + "\n")
    assert f"source is {source!r}" in lines[0]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "pg19").exists()


GRU = """
from torch import nn

class GRU(nn.Module):
    def __init__(self, vocab_size, hidden=16):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, vocab_size)

    def forward(self, tokens):
        return self.head(self.gru(self.embedding(tokens))[0])
"""


def test_anybodys_model_trains_and_is_evaluated(cli, monkeypatch):
    # The console script has its own folder on the module path, and not the current one.
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    monkeypatch.delitem(sys.modules, "my_models", raising=False)
    Path("my_models.py").write_text(GRU)
    train = ("train", "metalang", "--model", "my_models.GRU", "--model-args", '{"hidden": 24}', "--steps", 5,
             "--batch-size", 4, "--context-length", 24, "--device", "cpu", "--out", "gru", "--quiet")  # fmt: skip
    assert "gru: 5,168 parameters, 5 steps" in cli(*train).out
    config = json.loads(next(Path("gru").rglob("config.json")).read_text())
    assert config == {"model": "my_models:GRU", "vocab_size": 32, "hidden": 24}
    evaluate = ("evaluate", "metalang", "gru", *EVALUATE, "--sequences", 2, "--json")
    refused = cli(*evaluate)
    assert (refused.code, refused.out) == (2, "")
    assert "--trust-model" in refused.err
    assert 0 < parsed(cli(*evaluate, "--trust-model"))["regret"] < 5


def test_memory_that_is_not_there(cli, monkeypatch):
    def drawn(*arguments, **options):
        raise MemoryError("Unable to allocate 64.0 TiB")

    monkeypatch.setattr(metalang.Corpus, "language", drawn)
    result = cli("sample", "metalang")
    assert result.code == 2
    assert result.err == "neophyte: out of memory (Unable to allocate 64.0 TiB); allowed: smaller sizes\n"


def test_a_run_says_the_steps_that_it_has_done(cli):
    command = ("train", "metalang", "--out", "run", "--model", "laptop-2x32", "--context-length", 16, "--batch-size", 2,
               "--pilot-tokens", 256, "--device", "cpu", "--quiet")  # fmt: skip
    assert ", 3 steps, loss" in cli(*command, "--steps", 3).out
    assert ", 3 steps, loss" in cli(*command, "--steps", 2).out
