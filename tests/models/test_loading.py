"""Model folders: written and read by us or by huggingface_hub, and what is said of bad ones."""

import json

import pytest
import torch
from torch import nn

from neophyte.models.decoder import Decoder
from neophyte.models.loading import build_model, count_parameters, load_into, load_model, model_config, save_model

SIZES = {"vocab_size": 7, "num_layers": 1, "d_model": 16, "num_heads": 2}
CONFIG = {"model": "neophyte.models.decoder:Decoder", **SIZES}
TOKENS = torch.tensor([[0, 3, 6, 2, 2, 1]])


class Counter(nn.Module):
    """Somebody's own model, here of another architecture."""

    def __init__(self, vocab_size, width=3):
        super().__init__()
        self.table = nn.Embedding(vocab_size, width)


def make_list():
    return [1, 2]


@pytest.fixture
def model():
    torch.manual_seed(0)
    return build_model(CONFIG).eval()


@pytest.fixture
def folder(model, tmp_path):
    save_model(model, CONFIG, tmp_path / "model")
    return tmp_path / "model"


def assert_same(one, other):
    assert type(one) is type(other)
    assert not other.training
    for (name, a), (_, b) in zip(one.state_dict().items(), other.state_dict().items(), strict=True):
        assert torch.equal(a, b), name
    with torch.no_grad():
        assert torch.equal(one(TOKENS), other(TOKENS))


def test_a_saved_folder_loads(model, folder):
    loaded, config = load_model(folder)
    assert config == CONFIG
    assert_same(model, loaded)


def test_hub_round_trip(model, tmp_path):
    model.save_pretrained(tmp_path / "hub")
    assert_same(model, Decoder.from_pretrained(tmp_path / "hub"))
    assert "neophyte" in (tmp_path / "hub" / "README.md").read_text()


def test_the_hub_loads_our_folder(model, folder):
    assert_same(model, Decoder.from_pretrained(folder))


def test_we_load_the_hubs_folder(model, tmp_path):
    model.save_pretrained(tmp_path)
    loaded, config = load_model(tmp_path)
    assert_same(model, loaded)
    assert {name: config[name] for name in SIZES} == SIZES
    assert config["rope_theta"] == 10_000.0


def test_a_run_gives_its_newest_checkpoint(folder, tmp_path):
    for step, seed in ((9, 1), (10, 2)):
        torch.manual_seed(seed)
        newest = build_model(CONFIG).eval()
        save_model(newest, CONFIG, tmp_path / "run" / "checkpoints" / f"step-{step:09d}")
    (tmp_path / "run" / "checkpoints" / ".step-000000011.tmp").mkdir()
    assert_same(newest, load_model(tmp_path / "run")[0])


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("tiny", {"vocab_size": 9}, (CONFIG["model"], {"num_layers": 6, "d_model": 64, "num_heads": 4})),
        ("tiny", {"num_layers": 1}, (CONFIG["model"], {"num_layers": 1, "d_model": 64, "num_heads": 4})),
        ("a.b.Model", {"width": 1}, ("a.b:Model", {})),
        ("a.b:Model", {}, ("a.b:Model", {})),
    ],
)
def test_config_is_the_path_and_all_arguments(name, arguments, expected):
    path, sizes = expected
    assert model_config(name, arguments) == {"model": path, **sizes, **arguments}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tinny", r"model is 'tinny'; allowed: tiny, small, .*dotted path .* \(did you mean tiny\?\)"),
        ("Standard", "did you mean standard"),
        ("zzz", "model is 'zzz'; allowed: tiny, small"),
    ],
)
def test_an_unknown_preset_gives_the_nearest(name, message):
    with pytest.raises(ValueError, match=message):
        model_config(name, {})


@pytest.mark.parametrize("name", ["no_such_module_here.GRU", "torch.nn.NoSuchModel", ":GRU", "torch.nn:", "a..b:C"])
def test_a_path_that_cannot_be_imported_is_named(name):
    config = model_config(name, {})
    with pytest.raises(ValueError, match="which cannot be imported") as error:
        build_model(config)
    assert f"model is {config['model']!r}" in str(error.value)


def test_what_is_no_model_is_refused():
    with pytest.raises(ValueError, match=r"which makes a list; allowed: an nn\.Module"):
        build_model(model_config(f"{__name__}.make_list", {}))


def test_unknown_arguments_are_refused():
    with pytest.raises(ValueError, match=r"Decoder does not take .*'depth': 3"):
        build_model({**CONFIG, "depth": 3})
    with pytest.raises(ValueError, match="d_model is 15"):
        build_model({**CONFIG, "d_model": 15})


def test_anybodys_model_is_built_and_counted():
    model = build_model(model_config(f"{__name__}:Counter", {"vocab_size": 5, "width": 4}))
    assert count_parameters(model) == 20
    model.table.requires_grad_(False)
    assert count_parameters(model) == 0


@pytest.mark.parametrize("change", [{"d_model": 32}, {"num_layers": 2}, {"vocab_size": 8}], ids=str)
def test_weights_of_another_architecture_are_refused(folder, change):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(ValueError, match="holds the weights of another architecture") as error:
        load_model(folder)
    assert str(error.value).startswith(str(folder / "model.safetensors"))
    assert "\n" not in str(error.value)


def test_weights_of_another_class_are_refused(folder):
    with pytest.raises(ValueError, match=r"model\.safetensors: holds the weights of another architecture"):
        load_into(Counter(7), folder)


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"\xff" * 200, lambda data: data[:-1]],
    ids=["half", "empty", "other bytes", "a byte short"],
)
def test_damaged_weights_are_named_and_kept(folder, damage):
    path = folder / "model.safetensors"
    damaged = damage(path.read_bytes())
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="is damaged") as error:
        load_model(folder)
    assert str(error.value).startswith(str(path))
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_missing_files_are_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(ValueError, match="no such file") as error:
        load_model(folder)
    assert str(folder / name) in str(error.value)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(ValueError, match="nowhere") as error:
        load_model(tmp_path / "nowhere")
    assert "no such file" in str(error.value)


@pytest.mark.parametrize("content", ["", "{", "[]", '"tiny"'])
def test_a_config_that_is_none_is_named(folder, content):
    (folder / "config.json").write_text(content)
    with pytest.raises(ValueError, match=r"config\.json"):
        load_model(folder)
