"""Rows as the trials return them, made by hand so that every claim holds; tests then break one thing at a time."""

import itertools

from neophyte.core.files import write_json
from neophyte.evaluation.curves import log_bins
from neophyte.metalang.references import CONTROLS
from neophyte.metalang.text import TEXT
from neophyte.running.trials import prepare

LENGTH = 512


def finish(trial, root, rows):
    """Make the trial's folder look finished, with these rows."""
    prepare(trial, root)
    write_json(trial.folder(root) / "manifest.json", trial.call())
    write_json(trial.folder(root) / "rows.json", rows)


def curve(predictor, group, value, trial="evaluate"):
    """A curve whose mean over a bin is `value` of the bin's end."""
    return [
        {
            "trial": trial, "kind": "curve", "predictor": predictor, "group": str(group), "start": int(a),
            "stop": int(b), "mean_nats": value(int(b)), "low_nats": value(int(b)) - 0.1,
            "high_nats": value(int(b)) + 0.1, "sequences": 64,
        }
        for a, b in itertools.pairwise(log_bins(LENGTH))
    ]  # fmt: skip


def drop(predictor, group, **values):
    """How far a loss falls."""
    row = {"early": 3.0, "late": 1.0, "fall": 2.0, "half_width": 0.1, "late_unigram": 2.0, "late_oracle": 0.7,
           "below_unigram": 1.0, "below_unigram_half_width": 0.05, "sequences": 64}  # fmt: skip
    return {"trial": "evaluate", "kind": "drop", "predictor": predictor, "group": str(group), **row, **values}


def octaves(predictor, group, first=0.2, last=0.2, half_width=0.01):
    """How a loss falls over the last two doublings of the context."""
    return {"trial": "evaluate", "kind": "octaves", "predictor": predictor, "group": str(group), "first_fall": first,
            "first_fall_half_width": half_width, "last_fall": last, "last_fall_half_width": half_width,
            "bend": first - last, "bend_half_width": half_width}  # fmt: skip


def difference(one, other, group, value=0.0, half_width=0.01):
    """By how much one model's late loss is above another's."""
    return {"trial": "compare", "kind": "difference", "predictor": one, "other": other, "group": str(group),
            "late_difference": value, "half_width": half_width, "sequences": 64}  # fmt: skip


def fit(predictor, group, exponent):
    """A fitted power law."""
    return {"trial": "evaluate", "kind": "fit", "predictor": predictor, "group": str(group), "exponent": exponent,
            "low": exponent - 0.01, "high": exponent + 0.01, "first": 16}  # fmt: skip


def evaluation(model, orders, changes=None):
    """All rows of one model's evaluation; `changes` maps a group to fields of its "drop" row."""
    rows = []
    for group in (*orders, TEXT):
        rows += curve(model, group, lambda stop: 3.0 - 0.2 * (stop.bit_length() - 1))
        for control in CONTROLS:
            if group != TEXT or control not in ("oracle", "ngram_true_order"):
                rows += curve(control, group, lambda stop: 3.4)
        rows.append(drop(model, group, **(changes or {}).get(group, {})))
        rows.append(octaves(model, group))
        if group != TEXT:
            rows += [{**row, "kind": "regret"} for row in curve(model, group, lambda stop: 8.0 / (stop + 4))]
            rows.append(fit(model, group, 1.0 - 0.1 * group))
    return rows


def changed(rows, fields, **where):
    """The rows with some fields changed in those that match `where`; there must be some."""
    matching = [all(row.get(name) == value for name, value in where.items()) for row in rows]
    assert any(matching)
    return [{**row, **fields} if match else row for row, match in zip(rows, matching, strict=True)]
