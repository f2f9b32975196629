import json

import matplotlib.image
import numpy as np
import pytest

from neophyte.experiments.base import FAILS, HOLDS, run_experiment
from neophyte.experiments.mazeworld import EXPERIMENTS, sheets
from neophyte.mazeworld import Turn, World, mazes, shortest_steps
from neophyte.mazeworld.motion_kernels import COLLIDED, GOALS

BY_NAME = {experiment.name: experiment for experiment in EXPERIMENTS}


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return folder, {name: run_experiment(one, "smoke", folder) for name, one in BY_NAME.items()}


@pytest.mark.parametrize("name", BY_NAME)
def test_sheets_are_drawn(reports, name):
    folder, found = reports
    assert {claim.verdict for claim in found[name].claims} == {HOLDS}
    image = matplotlib.image.imread(folder / name / f"{name}.png")[..., :3]
    assert image.std() > 0.1


def test_all_variants_are_different(reports):
    rows = reports[1]["gpicl-fig14"].rows
    assert [row["variant"] for row in rows] == list(sheets.VARIANTS)
    frames = [sheets._view(row) for row in rows]
    assert len({frame.tobytes() for frame in frames}) == len(frames)
    assert frames[0].shape == (11, 11, 3)  # the window of the map
    assert json.loads(rows[2]["changes"]) == {"task": {"cell_length": 1.0}}


def test_a_sheet_with_a_blank_view_fails(reports):
    rows = [dict(row) for row in reports[1]["gpicl-fig14"].rows]
    rows[4]["contrast"] = 0.0
    assert [claim.verdict for claim in sheets.claims_fig14(rows, "laptop")] == [FAILS]
    walk = [dict(row) for row in reports[1]["gpicl-fig6"].rows]
    walk[0]["goals"] = 0
    assert [claim.verdict for claim in sheets.claims_fig6(walk, "laptop")] == [FAILS]


@pytest.mark.parametrize("index", range(5))
def test_the_walk_is_a_shortest_one(index):
    task = mazes("15-train")[index]
    actions, world = sheets.walk(task), World(1)
    world.load(0, task)
    for action in actions:
        assert world.integers[0, GOALS] == 0
        world.step(np.array([action]))
        assert not world.integers[0, COLLIDED]
    assert world.integers[0, GOALS] == 1
    assert actions.count(Turn.FORWARD) == shortest_steps(task)[0]


def test_the_best_pose_looks_down_the_longest_way():
    task = mazes("15-train")[0]
    x, y, heading = sheets.best_pose(task)
    row, column = int(y // 2), int(x // 2)
    down, right = round(np.sin(heading)), round(np.cos(heading))
    length = 0
    while not task.walls[row + down * (length + 1), column + right * (length + 1)]:
        length += 1
    runs = []
    for lines in (task.walls, task.walls.T):
        for line in lines:
            runs += [len(part) for part in "".join(map(str, line.tolist())).split("1")]
    assert length == max(runs) - 1
