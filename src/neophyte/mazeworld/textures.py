"""Textures of walls, floors and ceilings: procedural looks without end, or a folder of images.

A texture covers one square metre and repeats without a seam. What is drawn depends only on the look's address and on
additions, products, quotients and square roots of float64, so that it has the same pixels on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from neophyte.core.addressing import Space, Stream
from neophyte.core.spec import check_choice, check_integer
from neophyte.mazeworld.render_kernels import SIDE_BITS

VERSION = 1
SIDE = 1 << SIDE_BITS
PARTS = ("train", "unseen")
NUM_LOOKS = 64


@dataclass(frozen=True, eq=False)
class Library:
    """Textures that worlds draw from.

    Attributes:
        name: What it is called in addresses; libraries of equal names hold equal pixels.
        images: uint8 (looks, 128, 128, 3), rows downwards.
        texels: uint32 (looks * TEXELS,), what the renderer reads: red in the lowest byte, then green and blue; each
            look with all its smaller copies, each copy column by column.
        means: float64 (looks, 3), the mean colour of each.
    """

    name: str
    images: np.ndarray
    texels: np.ndarray
    means: np.ndarray

    def __len__(self) -> int:
        return len(self.images)

    def check_looks(self, looks: np.ndarray) -> None:
        """Raise ValueError unless all looks are in the library."""
        if looks.max() >= len(self):
            raise ValueError(f"wall_looks has {looks.max()}; allowed: below {len(self)}, the looks of {self.name}")


@lru_cache(maxsize=8)
def procedural(part: str = "train", num_looks: int = NUM_LOOKS) -> Library:
    """Return a library of procedural textures, kinds in turn.

    Args:
        part: "train" or "unseen"; the two share no look.
        num_looks: How many looks, in [1, 4096].
    """
    check_choice("part", part, PARTS)
    check_integer("num_looks", num_looks, 1, 4096)
    return _library(
        f"procedural@{VERSION}:{part}:{num_looks}", np.stack([draw_look(part, i) for i in range(num_looks)])
    )


@lru_cache(maxsize=8)
def folder(path: Path) -> Library:
    """Return a library of the images in a folder, in the order of their names, each scaled to 128 x 128.

    Raises:
        ValueError: There is no folder, no image in it, or one that cannot be read.
    """
    from PIL import Image

    if not path.is_dir():
        raise ValueError(f"textures is {str(path)!r}; allowed: a folder of images")
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in (".png", ".jpg", ".jpeg", ".bmp", ".webp"))
    if not files:
        raise ValueError(f"textures is {str(path)!r}, which holds no image; allowed: a folder of png, jpg, bmp or webp")
    images = []
    for file in files:
        try:
            with Image.open(file) as image:
                images.append(np.asarray(image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BOX)))
        except OSError as error:
            raise ValueError(f"{file}: not an image ({error}); remove it") from None
    stacked = np.stack(images)
    return _library(f"images:{hashlib.blake2b(stacked.tobytes(), digest_size=8).hexdigest()}", stacked)


def _library(name: str, images: np.ndarray) -> Library:
    levels, level = [], images.astype(np.float64)
    for bits in range(SIDE_BITS, 0, -1):
        whole = np.floor(level + 0.5).astype(np.uint32)
        packed = whole[..., 0] | (whole[..., 1] << 8) | (whole[..., 2] << 16)
        levels.append(packed.transpose(0, 2, 1).reshape(len(images), -1))
        if bits > 1:
            level = (level[:, ::2, ::2] + level[:, 1::2, ::2] + level[:, ::2, 1::2] + level[:, 1::2, 1::2]) / 4.0
    texels = np.concatenate(levels, axis=1).reshape(-1)
    means = images.mean(axis=(1, 2))
    for array in (images, texels, means):
        array.flags.writeable = False
    return Library(name, images, texels, means)


def draw_look(part: str, index: int) -> np.ndarray:
    """Return one procedural texture, uint8 (128, 128, 3)."""
    kinds = list(KINDS.values())
    stream = Space(f"mazeworld-textures@{VERSION}", part).stream("look", index)
    image = kinds[index % len(kinds)](stream)
    return np.floor(np.clip(image, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)


# Parts of looks. Images are float64 (128, 128, 3) or (128, 128), coordinates in [0, 1).

_X = (np.arange(SIDE) + 0.5)[None, :] / SIDE + np.zeros((SIDE, 1))
_Y = _X.T


def _colour(stream: Stream, saturation: tuple[float, float], value: tuple[float, float]) -> np.ndarray:
    """Return a random colour (3,): its hue is uniform."""
    hue, s, v = stream.uniform(3)
    s = saturation[0] + s * (saturation[1] - saturation[0])
    v = value[0] + v * (value[1] - value[0])
    wheel = (hue * 6.0 + np.array([0.0, 4.0, 2.0])) % 6.0
    return v * (1.0 - s * (1.0 - np.clip(np.abs(wheel - 3.0) - 1.0, 0.0, 1.0)))


def _noise(stream: Stream, across: int, down: int) -> np.ndarray:
    """Return smooth periodic noise in [0, 1] with so many cells across and down."""
    grid = stream.uniform(across * down).reshape(down, across)
    x, y = _X[0] * across, _Y[:, 0] * down
    i, j = np.floor(x).astype(int), np.floor(y).astype(int)
    fx, fy = x - i, y - j
    fx, fy = (fx * fx * (3.0 - 2.0 * fx))[None, :], (fy * fy * (3.0 - 2.0 * fy))[:, None]
    right, below = (i + 1) % across, (j + 1) % down
    top = grid[j[:, None], i] * (1.0 - fx) + grid[j[:, None], right] * fx
    bottom = grid[below[:, None], i] * (1.0 - fx) + grid[below[:, None], right] * fx
    return top * (1.0 - fy) + bottom * fy


def _clouds(stream: Stream, cells: int = 4, octaves: int = 5) -> np.ndarray:
    """Return noise of several scales, in [-1, 1]."""
    total, weight = np.zeros((SIDE, SIDE)), 1.0
    for octave in range(octaves):
        side = min(cells << octave, SIDE)
        total += weight * (2.0 * _noise(stream, side, side) - 1.0)
        weight *= 0.55
    return total / 2.0


def _shade(colour: np.ndarray, light: np.ndarray) -> np.ndarray:
    return colour * (1.0 + light)[..., None]


def _mix(one: np.ndarray, other: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return `one` where share is 0 and `other` where it is 1."""
    return one + (other - one) * np.clip(share, 0.0, 1.0)[..., None]


def _blocks(rows: int, columns: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of the block at each pixel, and the distance to its nearest edge; odd rows are shifted."""
    y = _Y * rows
    row = np.floor(y)
    x = (_X * columns + shift * (row % 2)) % columns
    column = np.floor(x)
    fx, fy = x - column, y - row
    edge = np.minimum(np.minimum(fx, 1.0 - fx) / columns, np.minimum(fy, 1.0 - fy) / rows)
    return (row * columns + column).astype(int), edge


def _pick(stream: Stream, *choices: float) -> float:
    return choices[int(stream.integers(len(choices), 1)[0])]


def _bricks(stream: Stream) -> np.ndarray:
    rows, columns = int(_pick(stream, 6, 8, 10)), int(_pick(stream, 2, 3, 4))
    clay, mortar = _colour(stream, (0.25, 0.65), (0.4, 0.75)), _colour(stream, (0.0, 0.12), (0.55, 0.8))
    block, edge = _blocks(rows, columns, 0.5)
    tint = 0.22 * (stream.uniform(rows * columns) - 0.5)
    face = _shade(clay, tint[block] + 0.22 * _clouds(stream, 8))
    gap = 0.010 + 0.004 * _noise(stream, 16, 16)
    face = _shade(face, -0.25 * np.clip(2.0 - edge / gap, 0.0, 1.0))
    return _mix(face, _shade(mortar, 0.15 * _clouds(stream, 16, 3)), (gap - edge) * SIDE)


def _planks(stream: Stream) -> np.ndarray:
    boards = int(_pick(stream, 4, 5, 6, 8))
    wood = _colour(stream, (0.25, 0.6), (0.35, 0.75))
    x = _X * boards
    board = np.floor(x).astype(int)
    edge = np.minimum(x - board, 1.0 - (x - board)) / boards
    grain = 2.0 * _noise(stream, 64, 2) - 1.0 + 0.7 * (2.0 * _noise(stream, 32, 4) - 1.0)
    tint = 0.3 * (stream.uniform(boards) - 0.5)
    ends = np.floor(stream.uniform(boards) * SIDE).astype(int)[board]
    away = np.abs((np.arange(SIDE)[:, None] - ends + SIDE // 2) % SIDE - SIDE // 2) / SIDE
    light = tint[board] + 0.13 * grain + 0.08 * _clouds(stream, 4, 3)
    gap = np.clip((0.009 - np.minimum(edge, away)) * SIDE, 0.0, 1.0)
    return _shade(wood, light) * (1.0 - 0.6 * gap)[..., None]


def _tiles(stream: Stream) -> np.ndarray:
    side = int(_pick(stream, 2, 4, 6))
    one, grout = _colour(stream, (0.1, 0.5), (0.55, 0.9)), _colour(stream, (0.0, 0.1), (0.3, 0.7))
    other = _colour(stream, (0.1, 0.6), (0.35, 0.8)) if stream.uniform(1)[0] < 0.5 else one
    block, edge = _blocks(side, side, 0.0)
    odd = ((block // side + block % side) % 2).astype(float)
    tint = 0.08 * (stream.uniform(side * side) - 0.5)
    face = _shade(_mix(one, other, odd), tint[block] + 0.07 * _clouds(stream, 4, 4))
    face = _shade(face, 0.12 * np.clip(1.0 - (edge - 0.012) * 60.0, 0.0, 1.0))
    return _mix(face, _shade(grout, 0.1 * _clouds(stream, 16, 2)), (0.012 - edge) * SIDE)


def _stones(stream: Stream) -> np.ndarray:
    count = int(_pick(stream, 10, 14, 20))
    rock, joint = _colour(stream, (0.05, 0.35), (0.4, 0.7)), _colour(stream, (0.0, 0.15), (0.15, 0.3))
    points = stream.uniform(2 * count).reshape(count, 2)
    dx = np.abs(_X[..., None] - points[:, 0])
    dy = np.abs(_Y[..., None] - points[:, 1])
    dx, dy = np.minimum(dx, 1.0 - dx), np.minimum(dy, 1.0 - dy)
    away = np.sqrt(dx * dx + dy * dy) + 0.02 * _noise(stream, 16, 16)[..., None]
    nearest = away.argmin(axis=2)
    ordered = np.sort(away, axis=2)
    edge = ordered[..., 1] - ordered[..., 0]
    tint = 0.4 * (stream.uniform(count) - 0.5)
    face = _shade(rock, tint[nearest] + 0.25 * _clouds(stream, 8) - 0.2 * np.clip(1.0 - edge * 14.0, 0.0, 1.0))
    return _mix(face, _shade(joint, 0.2 * _clouds(stream, 16, 3)), 1.0 - (edge - 0.012) * 60.0)


def _plaster(stream: Stream) -> np.ndarray:
    paint = _colour(stream, (0.08, 0.5), (0.55, 0.9))
    stains = np.clip(_clouds(stream, 2, 4) * 2.0, -1.0, 1.0)
    return _shade(paint, 0.10 * _clouds(stream, 4, 5) + 0.08 * stains + 0.05 * (2.0 * _noise(stream, 64, 64) - 1.0))


def _metal(stream: Stream) -> np.ndarray:
    panels = int(_pick(stream, 1, 2, 3))
    steel = _colour(stream, (0.02, 0.3), (0.4, 0.75))
    block, edge = _blocks(panels, panels, 0.0)
    brushed = 2.0 * _noise(stream, 4, 128) - 1.0 + 0.5 * (2.0 * _noise(stream, 16, 64) - 1.0)
    tint = 0.15 * (stream.uniform(panels * panels) - 0.5)
    x, y = (_X * panels) % 1.0, (_Y * panels) % 1.0
    cx, cy = np.minimum(x, 1.0 - x) / panels, np.minimum(y, 1.0 - y) / panels
    away = np.sqrt((cx - 0.05) ** 2 + (cy - 0.05) ** 2)
    rivet = np.clip((0.022 - away) * SIDE, 0.0, 1.0) * (0.2 + 8.0 * ((0.05 - cx) + (0.05 - cy)))
    light = tint[block] + 0.09 * brushed + 0.12 * _clouds(stream, 4, 3) + rivet
    return _shade(steel, light) * (1.0 - 0.55 * np.clip((0.010 - edge) * SIDE, 0.0, 1.0))[..., None]


def _fabric(stream: Stream) -> np.ndarray:
    threads = int(_pick(stream, 16, 32))
    one, other = _colour(stream, (0.3, 0.75), (0.4, 0.85)), _colour(stream, (0.1, 0.7), (0.3, 0.85))
    stripes = int(_pick(stream, 2, 4))
    broad = stream.uniform(stripes) < 0.5
    wx = broad[np.floor(_X * stripes).astype(int) % stripes].astype(float)
    wy = broad[::-1][np.floor(_Y * stripes).astype(int) % stripes].astype(float)
    tx, ty = (_X * threads) % 1.0, (_Y * threads) % 1.0
    over = ((np.floor(_X * threads) + np.floor(_Y * threads)) % 2).astype(float)
    round_x, round_y = 4.0 * tx * (1.0 - tx), 4.0 * ty * (1.0 - ty)
    light = np.where(over > 0.5, round_x, round_y) * 0.35 - 0.25 + 0.08 * _clouds(stream, 8, 4)
    return _shade(_mix(one, other, np.where(over > 0.5, wx, wy)), light)


def _concrete(stream: Stream) -> np.ndarray:
    grey = _colour(stream, (0.0, 0.18), (0.45, 0.75))
    panels = int(_pick(stream, 1, 2))
    _, edge = _blocks(panels, 1, 0.0)
    pores = np.clip((_noise(stream, 64, 64) - 0.80) * 6.0, 0.0, 1.0)
    streaks = 2.0 * _noise(stream, 16, 2) - 1.0
    light = 0.16 * _clouds(stream, 4, 5) + 0.07 * streaks - 0.35 * pores
    return _shade(grey, light) * (1.0 - 0.4 * np.clip((0.008 - edge) * SIDE, 0.0, 1.0))[..., None]


KINDS: dict[str, Callable[[Stream], np.ndarray]] = {
    "bricks": _bricks,
    "planks": _planks,
    "tiles": _tiles,
    "stones": _stones,
    "plaster": _plaster,
    "metal": _metal,
    "fabric": _fabric,
    "concrete": _concrete,
}


def library_of(name: str) -> Library:
    """Return the library that a task's `textures` names: "train:64", "unseen:64" or a folder.

    Raises:
        ValueError: It names none.
    """
    part, _, count = name.partition(":")
    if part in PARTS:
        if not count.isdigit():
            raise ValueError(f"textures is {name!r}; allowed: {part}:COUNT, or a folder of images")
        return procedural(part, int(count))
    return folder(Path(name))
