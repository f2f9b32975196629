"""Data sets on disk: .npy shards and a manifest with recipe and sha256; resumable, and verified against the recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from neophyte.core.files import atomic_write, environment, read_json, sha256_file, write_json
from neophyte.core.spec import check_integer

FORMAT = "neophyte-shards-1"
MANIFEST = "manifest.json"
BLOCK = 256  # samples drawn at once

Draw = Callable[[np.ndarray], np.ndarray]


def write_shards(
    folder: str | Path,
    recipe: Mapping[str, Any],
    draw: Draw,
    count: int,
    *,
    shard_size: int,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Write samples 0..count-1 as shards; a run that was killed goes on where it stopped.

    Args:
        folder: Where to write; made if missing.
        recipe: JSON values that say what the samples are (task, spec, split, seed).
        draw: Indices (batch,) to an array (batch, ...).
        count: Number of samples.
        shard_size: Samples in a shard; the last one may hold fewer.
        progress: Called with the number of samples done after each block of them.

    Returns:
        The manifest.

    Raises:
        ValueError: The folder holds another data set, files that are not a data set's, or a damaged shard.
        OSError: The disk is full; all finished shards are kept.
    """
    check_integer("count", count, 1)
    check_integer("shard_size", shard_size, 1)
    folder = Path(folder)
    manifest = _begin(folder, {"recipe": dict(recipe), "count": count, "shard_size": shard_size})
    for number, start in enumerate(range(0, count, shard_size)):
        rows = min(shard_size, count - start)
        name = f"shard-{number:05d}.npy"
        if number < len(manifest["shards"]):
            load_shard(folder, manifest["shards"][number], check=True)
            if progress:
                progress(rows)
        else:
            samples = _draw_blocks(draw, start, rows, progress)
            with atomic_write(folder / name) as file:
                np.save(file, samples)
            manifest["shards"].append({"file": name, "rows": rows, "sha256": sha256_file(folder / name)})
            write_json(folder / MANIFEST, manifest)
    if not manifest["complete"]:
        manifest["complete"] = True
        write_json(folder / MANIFEST, manifest)
    return manifest


def check_recipe(recipe: Mapping[str, Any], task: str) -> None:
    """Raise ValueError unless a recipe is one of the task, such as "metalang@1", and has spec, split and seed."""
    if recipe.get("task") != task:
        raise ValueError(f"task is {recipe.get('task')!r}; allowed: {task!r}, which this version of neophyte draws")
    for name in ("spec", "split", "seed"):
        if name not in recipe:
            raise ValueError(f"{name} is missing from the recipe; restore the manifest")


def _draw_blocks(draw: Draw, start: int, rows: int, progress: Callable[[int], None] | None) -> np.ndarray:
    """Return the samples start, ..., start + rows - 1, drawn a block at a time so that progress shows."""
    samples = np.empty(0)
    for done in range(0, rows, BLOCK):
        block = draw(np.arange(start + done, start + min(done + BLOCK, rows)))
        if done == 0:
            samples = np.empty((rows, *block.shape[1:]), dtype=block.dtype)
        samples[done : done + BLOCK] = block
        if progress:
            progress(len(block))
    return samples


def _begin(folder: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    path = folder / MANIFEST
    if path.exists():
        manifest = read_manifest(folder)
        for name, value in wanted.items():
            if manifest.get(name) != value:
                raise ValueError(
                    f"{folder}: holds another data set ({name} differs); allowed: an empty folder or the same run"
                )
        return manifest
    if folder.is_dir() and any(not file.name.startswith(".") for file in folder.iterdir()):
        raise ValueError(f"{folder}: holds files but no {MANIFEST}; allowed: an empty folder or an unfinished data set")
    manifest = {"format": FORMAT, **wanted, "shards": [], "complete": False, "environment": environment()}
    write_json(path, manifest)
    return manifest


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """Read the manifest of a data set.

    Raises:
        ValueError: There is none, or it is not one of ours.
    """
    path = Path(folder) / MANIFEST
    manifest = read_json(path)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ValueError(f"{path}: is not the manifest of a data set (format is not {FORMAT!r})")
    for name, kind in {"recipe": dict, "count": int, "shard_size": int, "shards": list, "complete": bool}.items():
        if not isinstance(manifest.get(name), kind):
            raise ValueError(f"{path}: {name} is {manifest.get(name)!r}, damaged; restore the file")
    for shard in manifest["shards"]:
        if not isinstance(shard, dict) or not {"file", "rows", "sha256"} <= shard.keys():
            raise ValueError(f"{path}: the shard {shard!r} is damaged; restore the file")
    return manifest


def verify_shards(
    folder: str | Path, draw: Draw | None = None, *, rows: int = 16, progress: Callable[[int], None] | None = None
) -> int:
    """Check every shard's sha256, and compare samples with fresh draws from the recipe.

    Args:
        folder: The data set.
        draw: As in `write_shards`; None skips the comparison.
        rows: Samples of each shard to compare, evenly spread; 0 compares all.
        progress: Called with the number of samples done after each shard.

    Returns:
        The number of samples compared.

    Raises:
        ValueError: A shard is missing, truncated, foreign or not what its recipe draws; the message names it.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    if not manifest["complete"]:
        raise ValueError(
            f"{folder}: is unfinished ({len(manifest['shards'])} shards); run the same generate command again"
        )
    listed = {shard["file"] for shard in manifest["shards"]}
    for extra in sorted(folder.glob("*.npy")):
        if extra.name not in listed:
            raise ValueError(f"{extra}: is not in the manifest; remove it")
    start, compared = 0, 0
    for shard in manifest["shards"]:
        samples = load_shard(folder, shard, check=True)
        if draw:
            picked = np.unique(np.linspace(0, shard["rows"] - 1, rows or shard["rows"]).astype(np.int64))
            if not np.array_equal(samples[picked], draw(start + picked)):
                raise ValueError(f"{folder / shard['file']}: differs from what its recipe draws")
            compared += len(picked)
        start += shard["rows"]
        if progress:
            progress(shard["rows"])
    if start != manifest["count"]:
        raise ValueError(f"{folder / MANIFEST}: lists {start} samples of {manifest['count']}; a shard was taken out")
    return compared


def load_shard(folder: Path, shard: Mapping[str, Any], *, check: bool) -> np.ndarray:
    """Memory-map one shard of a manifest; with `check`, compare its sha256 first.

    Raises:
        ValueError: The file is missing, truncated or foreign; the message names it.
    """
    path = folder / shard["file"]
    if not path.exists():
        raise ValueError(f"{path}: is missing")
    if check and sha256_file(path) != shard["sha256"]:
        raise ValueError(f"{path}: its sha256 is not the manifest's: the file is truncated, changed or foreign")
    try:
        samples: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: cannot be read ({error})") from None
    if samples.ndim == 0 or len(samples) != shard["rows"]:
        raise ValueError(f"{path}: has shape {samples.shape}, the manifest says {shard['rows']} rows")
    return samples


class StoredArrays:
    """The samples of a data set on disk, memory-mapped: `stored[index]` and `stored.batch(indices)`."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest = read_manifest(folder)
        if not self.manifest["complete"]:
            raise ValueError(f"{folder}: is unfinished; run the same generate command again")
        self._shards = [load_shard(self.folder, shard, check=False) for shard in self.manifest["shards"]]

    def __len__(self) -> int:
        return int(self.manifest["count"])

    def __getitem__(self, index: int) -> np.ndarray:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index is {index}; allowed: [0, {len(self)})")
        shard, row = divmod(index % len(self), self.manifest["shard_size"])
        return np.array(self._shards[shard][row])

    def batch(self, indices: Any) -> np.ndarray:
        """Return the samples at `indices`, (batch, ...)."""
        return np.stack([self[int(index)] for index in indices])
