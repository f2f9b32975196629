import hashlib

import numpy as np
import pytest
from PIL import Image

from neophyte.mazeworld import textures
from neophyte.mazeworld.render_kernels import TEXELS

from .slow_renderer import mip_levels


@pytest.fixture(scope="module")
def library():
    return textures.procedural("train", 16)


def test_looks_are_a_function_of_part_and_number(library):
    assert np.array_equal(library.images[11], textures.draw_look("train", 11))
    # On other machines too: additions, products, quotients and square roots round the same way everywhere.
    assert hashlib.sha256(library.images.tobytes()).hexdigest()[:16] == "fad7fb493819b28d"


def test_no_two_looks_are_alike_and_parts_share_none(library):
    unseen = textures.procedural("unseen", 16)
    looks = [image.astype(float) for image in (*library.images, *unseen.images)]
    for i, one in enumerate(looks):
        for other in looks[:i]:
            assert np.abs(one - other).mean() > 3.0


@pytest.mark.parametrize("kind", textures.KINDS)
def test_looks_repeat_without_a_seam(kind):
    number = list(textures.KINDS).index(kind)
    for index in range(number, number + 24, 8):
        image = textures.draw_look("train", index).astype(float)
        for axis in (0, 1):
            steps = np.abs(np.diff(image, axis=axis, append=image.take([0], axis=axis))).mean(axis=(1 - axis, 2))
            # From the last line to the first it is no rougher than somewhere inside: grooves are as deep everywhere.
            assert steps[-1] <= 1.3 * steps[:-1].max() + 1.0


@pytest.mark.parametrize("number", range(16))
def test_looks_have_contrast_but_are_neither_black_nor_white(library, number):
    image = library.images[number].astype(float)
    assert 25 < image.mean() < 235
    assert image.std() > 3


def test_smaller_copies_are_means_of_four(library):
    for look in (0, 7):
        levels = mip_levels(library.images[look])
        start = look * TEXELS
        assert sum(level.shape[0] * level.shape[1] for level in levels) == TEXELS
        for level in levels:
            side = len(level)
            packed = library.texels[start : start + side * side].reshape(side, side).T  # stored column by column
            np.testing.assert_array_equal(packed & 255, level[..., 0])
            np.testing.assert_array_equal((packed >> 8) & 255, level[..., 1])
            np.testing.assert_array_equal(packed >> 16, level[..., 2])
            start += side * side
    assert len(library.texels) == 16 * TEXELS


def test_a_folder_of_images_is_a_library(tmp_path):
    colours = {"b.png": (255, 0, 0), "a.png": (0, 128, 0), "c.jpg": (0, 0, 200)}
    for name, colour in colours.items():
        Image.new("RGB", (50, 30), colour).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("not an image")
    library = textures.folder(tmp_path)
    assert library.images.shape == (3, 128, 128, 3)
    assert library.images[0, 5, 5].tolist() == [0, 128, 0]
    assert library.images[1, 5, 5].tolist() == [255, 0, 0]
    assert library.name.startswith("images:")


def test_bad_folders_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"textures is .*nowhere.*allowed: a folder of images"):
        textures.folder(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="holds no image"):
        textures.folder(tmp_path)
    (tmp_path / "a.png").write_bytes(b"no png")
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "a.png").write_bytes(b"no png")
    with pytest.raises(ValueError, match=r"a\.png: not an image"):
        textures.folder(folder)


@pytest.mark.parametrize(("part", "count"), [("test", 8), ("train", 0), ("train", 5000)])
def test_bad_libraries_are_refused(part, count):
    with pytest.raises(ValueError, match="allowed"):
        textures.procedural(part, count)
