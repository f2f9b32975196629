"""Accuracy by training-set size, complexity, architecture, aggregation, holdout: Figures 9, 10, 11, 14, 16 and 17."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from neophyte.evaluation.sample_complexity import THRESHOLD, sample_complexity
from neophyte.experiments.base import FAILS, HOLDS, UNDECIDED, UNTESTED, Claim, all_of, claim
from neophyte.plotting.figures import COLOURS, new_figure, save_figure, select
from neophyte.running.trials import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FITTED = 0.995  # a training accuracy that counts as 100 %
NEAR = 0.1  # test accuracies that differ by less are about equal
FIG11_LEAST, FIG14_LEAST = 0.2, 0.6  # runs with a lower training accuracy are left out (captions of the figures)
LABELS = {"mlp": "MLP", "mlp-2x": "MLP 2x", "transformer": "Transformer", "mixer": "MLP-Mixer",
          "transformer-64": "Transformer, width 64", "mixer-64": "MLP-Mixer, width 64"}  # fmt: skip


def results(rows: Iterable[Row], name: str, **values: Any) -> list[Row]:
    """Return the scores on the set `name` of the runs whose fields have these values."""
    return select(list(rows), kind="result", set=name, **values)


def medians(rows: Sequence[Row], by: str = "train_size") -> dict[Any, float]:
    """Return the median accuracy over seeds by the field `by`, in order."""
    values = sorted({row[by] for row in rows})
    return {value: statistics.median(row["accuracy"] for row in rows if row[by] == value) for value in values}


def values_of(rows: Iterable[Row], field: str) -> list[Any]:
    """Return the values of a field, each once, in the rows' order."""
    return list(dict.fromkeys(row[field] for row in rows if field in row))


def keep_trained(rows: Sequence[Row], least: float) -> tuple[list[Row], int, int]:
    """Leave out the runs with a training accuracy below `least`; return the other rows, the runs left out, and all."""
    runs = results(rows, "train")
    bad = {row["trial"] for row in runs if row["accuracy"] < least}
    return [row for row in rows if row["trial"] not in bad], len(bad), len(runs)


def draw_line(axes: Axes, rows: Sequence[Row], label: str, by: str = "train_size", **style: Any) -> None:
    """Draw the median over seeds with a band from the lowest to the highest, and a point for each run."""
    found = medians(rows, by)
    scores = [[row["accuracy"] for row in rows if row[by] == value] for value in found]
    lows, highs = ([pick(values) for values in scores] for pick in (min, max))
    axes.plot(list(found), list(found.values()), label=label, **style)
    axes.fill_between(list(found), lows, highs, color=style.get("color"), alpha=0.15, linewidth=0)
    axes.plot([row[by] for row in rows], [row["accuracy"] for row in rows], ".", markersize=3, color=style.get("color"))


def _accuracy_axes(axes: Axes, title: str, x: str = "training examples") -> None:
    axes.set(title=title, xlabel=x, ylabel="accuracy", ylim=(-0.03, 1.03))
    if x == "training examples":
        axes.set_xscale("log")
        # Reference lines across the panel end at 0 and 1, which are no sizes.
        drawn = [np.asarray(line.get_xdata(), dtype=float) for line in axes.lines]
        sizes = sorted({size for sizes in drawn for size in sizes.tolist() if size > 1.0})
        if sizes and sizes[-1] < 30 * sizes[0]:  # too narrow for labels at powers of ten
            axes.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
            axes.minorticks_off()


def _references(axes: Axes, rows: Sequence[Row], colour: str) -> None:
    """Draw what remembering the seen cases would reach, and the best constant guess."""
    known = sorted({(row["train_size"], row["memorisation"]) for row in rows if "memorisation" in row})
    if known:
        axes.plot(*zip(*known, strict=True), color=colour, linestyle=":", linewidth=1.0)
    axes.axhline(max(row["constant_accuracy"] for row in rows), color="#999999", linewidth=0.8)


def _runs(rows: Sequence[Row]) -> str:
    runs = len({row["trial"] for row in rows})
    seeds = len({row["seed"] for row in rows if "seed" in row})
    return f"{runs} runs, {_epochs(rows)}, median and range of {seeds} seeds; grey: best constant guess"


def _epochs(rows: Sequence[Row]) -> str:
    """Say how often the runs saw their examples: by size, where it is less than the paper's 200 times."""
    fewer = sorted({(row["train_size"], row["epochs"]) for row in rows if row.get("epochs", 200) < 200})
    said = ", ".join(f"{epochs:.0f} at {size:,}" for size, epochs in fewer)
    return f"200 epochs or more{f', but {said}' if said else ''}"


# Figure 9


def draw_fig9(rows: list[Row], path: Path, caption: str) -> None:
    """Draw training and test accuracy of the MLP by size, a line for each complexity."""
    figure, axes = new_figure(1, 2, width=4.4, height=3.4)
    for colour, m in zip(COLOURS, values_of(rows, "neighbours"), strict=False):
        for panel, name in zip(axes[0], ("train", "test"), strict=True):
            draw_line(panel, results(rows, name, neighbours=m), f"m = {m}", color=colour)
        _references(axes[0, 1], results(rows, "test", neighbours=m), colour)
    _accuracy_axes(axes[0, 0], "MLP, training accuracy")
    _accuracy_axes(axes[0, 1], "MLP, test accuracy")
    axes[0, 0].legend(loc="lower left")
    save_figure(figure, path, f"{caption}; {_runs(rows)}; dotted: remembers the seen (pointer, window) cases")


def claims_fig9(rows: list[Row], scale: str) -> list[Claim]:
    """Test section 5.2, and the anchors of another implementation."""
    worst = min(results(rows, "train"), key=lambda row: row["accuracy"])
    fitted = HOLDS if worst["accuracy"] >= FITTED else FAILS
    detail = f"lowest {worst['accuracy']:.4f} (m = {worst['neighbours']}, {worst['train_size']:,} examples)"
    found = [claim("Training accuracy is 100 % for every size and complexity", scale, fitted, detail)]
    curves = {m: medians(results(rows, "test", neighbours=m)) for m in values_of(rows, "neighbours")}
    jumped = [m for m, curve in curves.items() if max(curve.values()) > THRESHOLD]
    verdict = all_of(HOLDS if _jumps(curves[m]) else FAILS for m in jumped) if jumped else UNTESTED
    detail = "; ".join(f"m = {m}: " + ", ".join(f"{size:,}: {value:.3f}" for size, value in curve.items())
                       for m, curve in curves.items())  # fmt: skip
    reach = f"m = {', '.join(map(str, jumped)) or 'none'}"
    found.append(claim("Test accuracy starts at chance and jumps: below 50 % and above 95 % within a factor of ten in "
                       f"size (tested: {reach})", scale, verdict, detail))  # fmt: skip
    needs = _needed(rows)["mlp"]
    found.append(claim("More complex tasks need more examples", scale, _ordered(needs, curves), _say(needs)))
    return [*found, *_anchors(rows, scale)]


def _jumps(curve: Mapping[int, float]) -> bool:
    """Whether a curve goes from below one half to above the threshold within a factor of ten in size."""
    low = [size for size, value in curve.items() if value < 0.5]
    high = [size for size, value in curve.items() if value > THRESHOLD]
    return bool(low and high) and min(high) <= 10 * max(low)


def _ordered(needs: Mapping[int, int | None], curves: Mapping[int, Mapping[int, float]]) -> str:
    """Judge whether each m needs more than the one before, where the sizes tell.

    An m that is not reached needs more than the largest size that was tried.
    """
    verdicts = []
    for (before, size), (m, following) in itertools.pairwise(needs.items()):
        if size is None:
            verdicts += [FAILS] * (following is not None and following <= max(curves[before]))
        elif following is not None:
            verdicts.append(HOLDS if following > size else FAILS)
        elif max(curves[m]) >= size:
            verdicts.append(HOLDS)
    return all_of(verdicts) if verdicts else UNTESTED


def _anchors(rows: Sequence[Row], scale: str) -> list[Claim]:
    """Compare with what another implementation of this recipe reached (mod_sum, w = 1)."""
    found = []
    for size, low, high in ((1_000, 0.19, 0.24), (10_000, 0.985, 0.995), (30_000, 0.9995, 1.0)):
        scores = [row["accuracy"] for row in results(rows, "test", neighbours=0, train_size=size)]
        if scores:
            verdict = HOLDS if all(low <= score <= high for score in scores) else FAILS
            found.append(claim(f"Anchor: m = 0, {size:,} examples: test accuracy in [{low}, {high}]", scale, verdict,
                               ", ".join(f"{score:.4f}" for score in scores)))  # fmt: skip
    return found


def _needed(rows: Sequence[Row]) -> dict[str, dict[int, int | None]]:
    """Return the sample complexity by model and m."""
    return {
        model: sample_complexity(
            (row["neighbours"], row["train_size"], row["accuracy"]) for row in results(rows, "test", model=model)
        )
        for model in values_of(rows, "model")
    }


def _say(needs: dict[int, int | None]) -> str:
    return ", ".join(f"m = {m}: {'more than tried' if size is None else f'{size:,}'}" for m, size in needs.items())


# Figures 10 and 11


def draw_fig10(rows: list[Row], path: Path, caption: str) -> None:
    """Draw test accuracy by size, a panel for each complexity and a line for each architecture."""
    ms = values_of(rows, "neighbours")
    figure, axes = new_figure(1, len(ms), width=3.7, height=3.2, sharey=True)
    for panel, m in zip(axes[0], ms, strict=True):
        for colour, model in zip(COLOURS, values_of(rows, "model"), strict=False):
            if found := results(rows, "test", model=model, neighbours=m):
                draw_line(panel, found, LABELS.get(model, model), color=colour)
        _references(panel, results(rows, "test", neighbours=m), "#777777")
        _accuracy_axes(panel, f"test accuracy, m = {m}")
    axes[0, 0].legend(loc="upper left")
    save_figure(figure, path, f"{caption}; {_runs(rows)}; dotted: remembers the seen cases; examples for a median test "
                f"accuracy above {THRESHOLD:.0%}: {score_table(rows)}")  # fmt: skip


def claims_fig10(rows: list[Row], scale: str) -> list[Claim]:
    """Test section 5.3: which architectures need fewer examples."""
    kinds = {kind: next((m for m in values_of(rows, "model") if m.startswith(kind)), None)
             for kind in ("transformer", "mixer", "mlp-2x")}  # fmt: skip
    found = [
        _ahead(rows, scale, kinds["transformer"], "mlp"),
        _ahead(rows, scale, kinds["mixer"], "mlp"),
        _ahead(rows, scale, kinds["mixer"], kinds["transformer"]),
    ]
    gaps = _gaps(rows, kinds["mlp-2x"], "mlp")
    verdict = (HOLDS if max(map(abs, gaps.values())) < NEAR else FAILS) if gaps else UNTESTED
    found.append(claim(f"MLP 2x does about as well as MLP (within {NEAR})", scale, verdict, _list_gaps(gaps)))
    return found


def score_table(rows: Sequence[Row]) -> str:
    """Return the sample complexity of every architecture in words, on the grid of sizes that there is."""
    said = []
    for model, sizes in _needed(rows).items():
        tried = {m: [row["train_size"] for row in results(rows, "test", model=model, neighbours=m)] for m in sizes}
        parts = []
        for m, size in sizes.items():
            words = "more than " if size is None else "at most " if size == min(tried[m]) else ""
            parts.append(f"{words}{size or max(tried[m]):,} (m = {m})")
        said.append(f"{LABELS.get(model, model)} {', '.join(parts)}")
    return "; ".join(said)


def _gaps(rows: Sequence[Row], one: str | None, other: str | None) -> dict[tuple[int, int], float]:
    """Return the difference of two models' median test accuracy by (m, size), where both have runs."""
    gaps: dict[tuple[int, int], float] = {}
    for m in values_of(rows, "neighbours"):
        a, b = (medians(results(rows, "test", model=name, neighbours=m)) for name in (one, other))
        gaps |= {(m, size): a[size] - b[size] for size in a if size in b}
    return gaps


def _list_gaps(gaps: dict[tuple[int, int], float]) -> str:
    return ", ".join(f"m = {m}, {size:,}: {gap:+.3f}" for (m, size), gap in gaps.items())


def _ahead(rows: Sequence[Row], scale: str, one: str | None, other: str | None) -> Claim:
    """Judge whether a model is ahead wherever the two differ by more than NEAR, and somewhere does."""
    names = [LABELS.get(str(name), str(name)) for name in (one, other)]
    text = f"{names[0]} is ahead of {names[1]}"
    gaps = _gaps(rows, one, other)
    apart = [gap for gap in gaps.values() if abs(gap) >= NEAR]
    if not gaps:
        verdict = UNTESTED
    elif not apart:
        verdict = UNDECIDED
    else:
        verdict = HOLDS if min(apart) > 0 else FAILS
    return claim(f"{text} (test accuracy at equal size)", scale, verdict, _list_gaps(gaps))


def draw_fig11(rows: list[Row], path: Path, caption: str) -> None:
    """Draw training and test accuracy of the MLP and test accuracy of MLP-Mixer at large sizes."""
    kept, left_out, runs = keep_trained(rows, FIG11_LEAST)
    mixer = next((model for model in values_of(rows, "model") if model.startswith("mixer")), "mixer")
    figure, axes = new_figure(1, 3, width=3.7, height=3.2, sharey=True)
    panels = (("mlp", "train"), ("mlp", "test"), (mixer, "test"))
    for panel, (model, name) in zip(axes[0], panels, strict=True):
        for m in values_of(rows, "neighbours"):
            if found := results(kept, name, model=model, neighbours=m):
                draw_line(panel, found, f"m = {m}", color=COLOURS[m])
        _accuracy_axes(panel, f"{LABELS[model]}, {'training' if name == 'train' else 'test'} accuracy")
        if panel.lines:
            panel.legend(loc="best")
    save_figure(figure, path, f"{caption}; {_runs(kept)}; left out: {left_out} of {runs} runs with a training accuracy "
                              f"below {FIG11_LEAST:.0%}")  # fmt: skip


def claims_fig11(rows: list[Row], scale: str) -> list[Claim]:
    """Test section 5.4 at the paper's sizes; what a smaller scale shows is said in the numbers."""
    kept, left_out, runs = keep_trained(rows, FIG11_LEAST)
    mlp = medians(results(kept, "test", model="mlp", neighbours=3))
    fits = medians(results(rows, "train", model="mlp", neighbours=3))  # a run that fits nothing belongs to this claim
    big, bigger = 10**7, 5 * 10**7
    learns = (HOLDS if mlp[big] > THRESHOLD else FAILS) if big in mlp else UNTESTED
    underfits = (HOLDS if fits[bigger] < FITTED else FAILS) if bigger in fits else UNTESTED
    solved, verdicts = [], []
    for m in values_of(rows, "neighbours"):
        found = {size: value for model in values_of(rows, "model") if model.startswith("mixer")
                 for size, value in medians(results(kept, "test", model=model, neighbours=m)).items()}  # fmt: skip
        if 5 * 10 ** (m + 3) in found:
            solved.append(f"m = {m}: {found[5 * 10 ** (m + 3)]:.3f}")
            verdicts.append(HOLDS if found[5 * 10 ** (m + 3)] > THRESHOLD else FAILS)
    say = ", ".join(f"{size:,}: {value:.3f}" for size, value in mlp.items())
    return [
        claim("The MLP learns m = 3 from 10^7 examples", scale, learns, say),
        claim("Above, the MLP cannot fit its training set", scale, underfits,
              ", ".join(f"{size:,}: {value:.3f}" for size, value in fits.items())),
        claim("MLP-Mixer solves m with 5 * 10^(m + 3) examples", scale, all_of(verdicts) if verdicts else UNTESTED,
              f"{', '.join(solved) or 'no such size'}; {left_out} of {runs} runs left out"),
    ]  # fmt: skip


# Figure 14


def draw_fig14(rows: list[Row], path: Path, caption: str) -> None:
    """Draw test accuracy by the number of held-out permutations and the balanced holdout: panels by m and size."""
    kept, left_out, runs = keep_trained(rows, FIG14_LEAST)
    tasks = sorted({(row["neighbours"], row["train_size"]) for row in results(rows, "test")})
    figure, axes = new_figure(1, len(tasks), width=4.6, height=3.4, sharey=True)
    names = {"first": "window (0, ..., m), as in the paper", "held_out": "all held-out windows", "test": "not held out"}
    for panel, (m, size) in zip(axes[0], tasks, strict=True):
        here = {"neighbours": m, "train_size": size}
        for colour, (name, label) in zip(COLOURS, names.items(), strict=False):
            if found := results(kept, name, holdout="permutations", **here):
                draw_line(panel, found, label, by="holdout_count", color=colour, marker="o", markersize=4)
        place = max(row["holdout_count"] for row in results(rows, "test", holdout="permutations", **here))
        for colour, name in zip(COLOURS[1:], ("held_out", "test"), strict=False):
            found = results(kept, name, holdout="balanced", **here)
            panel.plot([place + 1] * len(found), [row["accuracy"] for row in found], "s", color=colour, markersize=4)
        panel.set_xticks([*range(1, place + 1), place + 1], [*map(str, range(1, place + 1)), "balanced"])
        panel.axhline(0.1, color="#999999", linewidth=0.8)
        _accuracy_axes(panel, f"window size {m + 1}, {size:,} examples", x="held-out permutations i")
        if panel.get_legend_handles_labels()[0]:
            panel.legend(loc="lower left")
    save_figure(figure, path, f"{caption}; {runs} runs, {_epochs(rows)}; left out: {left_out} with a training accuracy "
                f"below {FIG14_LEAST:.0%}; a constant guess scores 100 % on held-out permutations, 10 % on "
                "balanced ones")  # fmt: skip


def claims_fig14(rows: list[Row], scale: str) -> list[Claim]:
    """Test section 6.2."""
    kept, left_out, runs = keep_trained(rows, FIG14_LEAST)

    def solved(holdout: str, name: str) -> tuple[str, str]:
        scores = [row["accuracy"] for row in results(kept, name, holdout=holdout)]
        if not scores:
            return UNTESTED, "no runs"
        said = f"{sum(score > THRESHOLD for score in scores)} of {len(scores)} runs above {THRESHOLD:.0%}, lowest " \
               f"{min(scores):.3f}, median {statistics.median(scores):.3f}"  # fmt: skip
        return HOLDS if min(scores) > THRESHOLD else FAILS, said

    verdict, detail = solved("permutations", "first")
    # A run that does not generalise at all says nothing about the holdout.
    learnt = {row["trial"] for row in results(kept, "test") if row["accuracy"] > THRESHOLD}
    detail += f"; {len(learnt)} of {runs - left_out} runs reach {THRESHOLD:.0%} on examples that are not held out"
    everything, balanced = solved("permutations", "held_out"), solved("balanced", "held_out")
    return [
        claim("When training succeeds, the held-out window is solved (100 %)", scale, verdict,
              f"{detail}; {left_out} of {runs} runs left out"),
        claim("So are all held-out permutations", scale, *everything),
        claim("So are balanced held-out windows, where a constant guess scores 10 %", scale, *balanced),
    ]  # fmt: skip


# Figures 16 and 17


def draw_fig16(rows: list[Row], path: Path, caption: str) -> None:
    """Draw test accuracy by size, a panel for each aggregation and a line for each complexity."""
    kinds = values_of(rows, "aggregation")
    figure, axes = new_figure(1, len(kinds), width=3.0, height=3.2, sharey=True)
    for panel, kind in zip(axes[0], kinds, strict=True):
        for m in values_of(rows, "neighbours"):
            # With a window of one value all aggregations are one task, which is run once.
            found = results(rows, "test", neighbours=m, **({"aggregation": kind} if m else {}))
            draw_line(panel, found, f"m = {m}", color=COLOURS[m])
            panel.axhline(found[0]["constant_accuracy"], color=COLOURS[m], linewidth=0.8, linestyle=":")
        _accuracy_axes(panel, kind)
    axes[0, 0].legend(loc="upper left")
    save_figure(figure, path, f"{caption}; {_runs(rows).split(';')[0]}; dotted: best constant guess")


def claims_fig16(rows: list[Row], scale: str) -> list[Claim]:
    """Test appendix C: only mod_sum gets harder to learn as the window grows."""
    ms = values_of(rows, "neighbours")
    size = max(row["train_size"] for row in rows if row.get("aggregation") != "mod_sum")
    easy = medians(results(rows, "test", neighbours=0))[size]
    last = {kind: medians(results(rows, "test", neighbours=max(ms), aggregation=kind))[size]
            for kind in values_of(rows, "aggregation")}  # fmt: skip
    others = [value for kind, value in last.items() if kind != "mod_sum"]
    said = ", ".join(f"{kind} {value:.3f}" for kind, value in last.items())
    detail = f"{size:,} examples, m = 0: {easy:.3f}; m = {max(ms)}: {said}"
    return [
        claim(f"mod_sum gets harder with the window (by more than {NEAR})", scale,
              HOLDS if easy - last["mod_sum"] > NEAR else FAILS, detail),
        claim(f"The other aggregations do not (by no more than {NEAR})", scale,
              HOLDS if easy - min(others) <= NEAR else FAILS, detail),
        claim("mod_sum is the hardest of all", scale, HOLDS if last["mod_sum"] < min(others) else FAILS, detail),
    ]  # fmt: skip


def draw_fig17(rows: list[Row], path: Path, caption: str) -> None:
    """Draw test accuracy by size without and with a pointer."""
    figure, axes = new_figure(1, 2, width=4.2, height=3.3, sharey=True)
    for panel, pointer in zip(axes[0], (False, True), strict=True):
        for m in values_of(rows, "neighbours"):
            found = results(rows, "test", neighbours=m, pointer=pointer)
            draw_line(panel, found, f"m = {m}", color=COLOURS[m])
            _references(panel, found, COLOURS[m])
        _accuracy_axes(panel, f"{'with' if pointer else 'without'} pointer")
    axes[0, 0].legend(loc="lower right")
    model = LABELS.get(rows[0]["model"], rows[0]["model"])
    save_figure(figure, path, f"{caption}; {model}; {_runs(rows)}; dotted: remembers the seen cases")


def claims_fig17(rows: list[Row], scale: str) -> list[Claim]:
    """Test appendix D: without a pointer, orders of magnitude fewer examples."""
    apart = [select(rows, pointer=pointer) for pointer in (False, True)]
    without, with_pointer = (next(iter(_needed(part).values())) for part in apart)
    largest = max(row["train_size"] for row in apart[True] if "train_size" in row)
    ratios, verdicts = [], []

    def tried(m: int, pointer: bool) -> list[int]:
        return values_of(results(rows, "test", neighbours=m, pointer=pointer), "train_size")

    for m, size in without.items():
        other = with_pointer.get(m)
        said = [f"{found:,}" if found else f"more than {largest:,}" for found in (size, other)]
        ratios.append(f"m = {m}: {said[0]} against {said[1]}")
        if size is None:
            continue
        # What is needed lies between one size of the grid and the next: the ratio has a least and a largest value.
        below = max((found for found in tried(m, False) if found < size), default=1)
        above = max((found for found in tried(m, True) if other is None or found < other), default=1)
        if above / size >= 10:
            verdicts.append(HOLDS)
        else:
            verdicts.append(FAILS if other is not None and other / below < 10 else UNDECIDED)
    return [claim("Without a pointer at least ten times fewer examples suffice", scale,
                  all_of(verdicts) if verdicts else UNTESTED, "; ".join(ratios) or "not reached")]  # fmt: skip
