"""What `neophyte sample pvr` shows: sequences in the terminal, images on a sheet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.text import Text

from neophyte import pvr
from neophyte.cli.display import console, print_json
from neophyte.pvr import TokenDataset, VisualDataset


def show_tokens(source: TokenDataset, indices: np.ndarray, twins: bool, as_json: bool) -> None:
    """Print the examples at `indices`, and with `twins` their counterfactual twins."""
    found, spec = source.batch(indices), source.spec
    known = pvr.variables(found.tokens, spec)
    changed = source.twins(indices) if twins else None
    names = ("pointer", "value", "irrelevant") if changed else ()
    if as_json:
        print_json([
            {"index": int(indices[i]), "tokens": found.tokens[i].tolist(), "label": int(found.labels[i]),
             "pointer": int(known.pointers[i]), "start": int(known.starts[i]),
             "window": [value for value in known.windows[i].tolist() if value >= 0],
             "mask": known.mask[i].tolist(),
             **({"twins": {name: {"tokens": getattr(changed, name).tokens[i].tolist(),
                                  "label": int(getattr(changed, name).labels[i])} for name in names}} if twins else {})}
            for i in range(len(indices))
        ])  # fmt: skip
        return
    what = f"{spec.aggregation} of {spec.window} of {spec.num_values} values, {spec.window_end} window"
    console.print(f"{what}; {source.split}, seed {source.seed}", markup=False)
    for i in range(len(indices)):
        console.print(_line(str(indices[i]), found.tokens[i], int(found.labels[i]), source))
        for name in names:
            twin = getattr(changed, name)
            console.print(_line(name, twin.tokens[i], int(twin.labels[i]), source))


def _line(name: str, tokens: np.ndarray, label: int, source: TokenDataset) -> Text:
    """Return a sequence with its pointer in < > and its window in [ ], and what the label is."""
    spec = source.spec
    known = pvr.variables(tokens[None], spec)
    header = range(spec.pointer_position, spec.pointer_position + spec.length - spec.num_values)
    text = Text(f"{name:>10}  ")
    for column, token in enumerate(tokens.tolist()):
        if column in header:
            text.append(f"<{token}>", style="bold yellow")
        elif known.mask[0, column]:
            text.append(f"[{token}]", style="bold green")
        else:
            text.append(f" {token} ", style="dim")
    values = [value for value in known.windows[0].tolist() if value >= 0]
    text.append(f"   {spec.aggregation}({', '.join(map(str, values))}) = ")
    return text.append(str(label), style="bold")


def show_images(source: VisualDataset, indices: np.ndarray, out: Path, title: str, as_json: bool) -> None:
    """Draw the examples at `indices` on a labelled sheet at `out`, or print their labels as JSON."""
    from neophyte.experiments.pvr.images import draw_sheet
    from neophyte.plotting.figures import style

    found = source.batch(indices)
    pointers = found.classes[:, source.spec.pointer_cell]
    if as_json:
        print_json([
            {"index": int(indices[i]), "classes": found.classes[i].tolist(), "pointer": int(pointers[i]),
             "start": int(found.pointers[i]), "label": int(found.labels[i])}
            for i in range(len(indices))
        ])  # fmt: skip
        return
    titles = [f"{p} → cell {cell}: {label}" for p, cell, label in
              zip(pointers, found.pointers, found.labels, strict=True)]  # fmt: skip
    across = 8 if source.image_shape[1] <= 4 * source.image_shape[0] else 1
    lines = {str(indices[first]): (found.images[first : first + across], titles[first : first + across])
             for first in range(0, len(indices), across)}  # fmt: skip
    said = f"{title}, {source.split}, seed {source.seed}; above: the pointer's class, the cell that it names, the label"
    with style():
        draw_sheet(lines, out, said)
    console.print(f"{out}: {len(indices)} examples of {title}", markup=False)
