"""What single trials make of what they need, on files made by hand."""

import itertools

import numpy as np
import pytest

from neophyte.evaluation.curves import Losses, log_bins, save_losses
from neophyte.experiments.metalang.scales import comparison_trial
from neophyte.experiments.metalang.trials import LOSSES_FILE, compare_language_models

EDGES = log_bins(64)


def write_evaluation(folder, label, late, sequences=9):
    """Losses of one model: sequences of very different difficulty, `late` nats above it at the end."""
    difficulty = np.random.default_rng(0).normal(2.0, 1.0, (sequences, 1))
    values = np.repeat(difficulty, len(EDGES) - 1, axis=1) + 5.0
    values[:, EDGES[:-1] >= 45] = difficulty + late
    groups = [2] * (sequences - 4) + ["text"] * 4
    folder.mkdir()
    save_losses(Losses(EDGES, groups, {label: values.astype(np.float32)}), folder / LOSSES_FILE)


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_models_are_compared_pair_by_pair_and_sequence_by_sequence(tmp_path, scale):
    trial = comparison_trial(scale)
    labels = trial.params["labels"]
    late = {label: 0.25 * number for number, label in enumerate(labels)}
    needs = {}
    # A worker gets its needs in the order of their names, not in that of the labels.
    for need in sorted(trial.needs, key=lambda need: need.name):
        needs[need.name] = tmp_path / need.name
        write_evaluation(needs[need.name], need.params["label"], late[need.params["label"]])
    rows = compare_language_models(tmp_path, needs, **trial.params)
    pairs = {(row["predictor"], row["other"], row["group"]): row for row in rows}
    assert pairs.keys() == {
        (one, other, group) for one, other in itertools.combinations(labels, 2) for group in ("2", "text")
    }
    for (one, other, group), row in pairs.items():
        assert row["late_difference"] == pytest.approx(late[one] - late[other], abs=1e-5)
        # The sequences' own spread, 1 nat, is in neither.
        assert row["half_width"] < 1e-5
        assert row["sequences"] == (4 if group == "text" else 5)
