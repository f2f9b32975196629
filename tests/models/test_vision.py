"""torchvision's networks for images as the data sets make them, against torchvision run by hand."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from neophyte.models.loading import build_model, count_parameters, load_model, model_config, save_model

torchvision = pytest.importorskip("torchvision")

from neophyte.models.vision import VGG11BN, ImageClassifier, ResNet18  # noqa: E402  it imports torchvision


class Recorder(nn.Module):
    """Stands for a network, and keeps what it is fed."""

    def forward(self, images):
        self.fed = images
        return images.mean(dim=(1, 2, 3))


def some_images(batch, height, width, channels, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (batch, height, width, channels), generator=generator, dtype=torch.uint8)


@pytest.fixture(scope="module")
def resnet():
    """A ResNet18 whose normalisations have seen something, in evaluation mode."""
    torch.manual_seed(0)
    model = ResNet18(num_classes=7)
    model(some_images(6, 40, 40, 3, seed=5))
    return model.eval()


@pytest.mark.parametrize(("name", "count"), [("resnet18", 11_181_642), ("vgg11-bn", 128_812_810)])
def test_the_counts_are_those_of_ten_classes(name, count):
    with torch.device("meta"):
        assert count_parameters(build_model(model_config(name, {}), trust=False)) == count


@pytest.mark.parametrize("make", [ResNet18, VGG11BN])
def test_the_number_of_classes_is_the_last_layers(make):
    with torch.device("meta"):
        model = make(num_classes=3)
    *_, last = (module for module in model.modules() if isinstance(module, nn.Linear))
    assert last.out_features == 3
    assert isinstance(model.network, torchvision.models.ResNet if make is ResNet18 else torchvision.models.VGG)


@pytest.mark.parametrize("channels", [1, 3])
def test_bytes_come_scaled_and_channels_first(channels):
    recorder = Recorder()
    images = some_images(4, 5, 6, channels)
    ImageClassifier(recorder)(images)
    assert recorder.fed.shape == (4, 3, 5, 6)
    assert recorder.fed.dtype == torch.float32
    expected = np.broadcast_to(images.numpy().astype(np.float32), (4, 5, 6, 3)).transpose(0, 3, 1, 2) / np.float32(255)
    np.testing.assert_array_equal(recorder.fed.numpy(), expected)


def test_black_is_0_and_white_is_1():
    recorder = Recorder()
    images = torch.tensor([0, 255], dtype=torch.uint8)[:, None, None, None].expand(2, 3, 3, 1)
    assert ImageClassifier(recorder)(images).tolist() == [0.0, 1.0]


def test_a_pixel_keeps_its_place_and_its_channel():
    recorder = Recorder()
    images = torch.zeros(1, 4, 5, 3, dtype=torch.uint8)
    images[0, 1, 3, 2] = 255
    ImageClassifier(recorder)(images)
    assert recorder.fed.nonzero().tolist() == [[0, 2, 1, 3]]


@torch.no_grad()
@pytest.mark.parametrize("channels", [1, 3])
def test_logits_are_torchvisions(resnet, channels):
    images = some_images(3, 40, 40, channels)
    plain = torchvision.models.resnet18(weights=None, num_classes=7).eval()
    plain.load_state_dict(resnet.network.state_dict())
    by_hand = torch.stack([images[..., min(c, channels - 1)].float() / 255 for c in range(3)], dim=1)
    logits = resnet(images)
    assert logits.shape == (3, 7)
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, plain(by_hand), atol=1e-5, rtol=1e-5)
    assert logits.std(dim=0).max() > 1e-4, "the images must differ"


@torch.no_grad()
def test_grey_is_the_same_in_all_channels(resnet):
    grey = some_images(2, 40, 40, 1)
    torch.testing.assert_close(resnet(grey), resnet(grey.expand(-1, -1, -1, 3)), atol=1e-6, rtol=1e-6)


@torch.no_grad()
def test_an_image_depends_on_no_other_in_evaluation(resnet):
    images = some_images(3, 40, 40, 1)
    whole = resnet(images)
    for row in range(3):
        torch.testing.assert_close(resnet(images[row : row + 1])[0], whole[row], atol=1e-5, rtol=1e-5)


def test_two_channels_are_an_error():
    with pytest.raises(RuntimeError):
        ImageClassifier(Recorder())(some_images(1, 4, 4, 2))


def test_weights_are_random_and_the_seeds():
    weights = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        weights.append(ResNet18().network.conv1.weight)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize("name", ["resnet18", "vgg11-bn"])
def test_a_preset_is_the_path_and_its_arguments(name):
    config = model_config(name, {"num_classes": 4})
    assert config["num_classes"] == 4
    assert config["model"].startswith("neophyte.models.vision:")
    assert json.loads(json.dumps(config)) == config


def test_a_saved_network_loads_with_its_running_means(resnet, tmp_path):
    config = model_config("resnet18", {"num_classes": 7})
    save_model(resnet, config, tmp_path)
    loaded, found = load_model(tmp_path)
    assert found == config
    one, other = resnet.state_dict(), loaded.state_dict()
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)
    assert one["network.bn1.num_batches_tracked"] == 1
    with torch.no_grad():
        images = some_images(2, 40, 40, 1)
        assert torch.equal(resnet(images), loaded(images))
