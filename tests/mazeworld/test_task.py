import dataclasses
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from neophyte import mazeworld
from neophyte.core.spec import from_mapping, to_mapping
from neophyte.mazeworld import COLOURS, MazeTask, MazeTaskSpec, mazes
from neophyte.mazeworld.spec import tree_density

SPECS = [{}, {"style": "rooms"}, {"sizes": (7, 9, 11), "num_targets": (2, 15)}, {"loops": False, "num_commands": 3},
         {"cell_length": (1, 3), "pitch": (-0.3, 0.3), "view_range": (4, 30)}]  # fmt: skip


@pytest.fixture(params=range(len(SPECS)))
def source(request):
    return mazes(MazeTaskSpec(**SPECS[request.param]), seed=5)


def test_tasks_have_what_they_promise(source):
    for index in range(50):
        task = source[index]
        assert task.size in source.spec.sizes
        assert not task.walls[task.start]
        cells = [tuple(cell) for cell in task.target_cells.tolist()]
        assert len({*cells, task.start}) == len(cells) + 1
        assert not any(task.walls[cell] for cell in cells)
        low, high = source.spec.num_targets
        assert low <= len(cells) <= high
        assert len(task.commands) == source.spec.num_commands
        assert (task.commands[1:] != task.commands[:-1]).all()
        assert task.wall_looks.max() < source.spec.num_looks
        for name in ("cell_length", "pitch", "view_range", "eye_height", "step_cost"):
            low, high = getattr(source.spec, name)
            assert low <= getattr(task, name) <= high
        assert task.goal_reward == pytest.approx(task.size**1.5 * 0.01)
        assert (np.abs(task.target_values - 0.4) <= 0.5).all()


def test_a_task_is_a_function_of_its_address():
    one, other = mazes("15-train", seed=1), mazes("15-train", seed=1)
    assert one[7] == other[7]
    assert hash(one[7]) == hash(other[7])
    assert one[7].name == f"{one.spec.identity[:20]}/train/1/7"
    found = [one[7], one[8], mazes("15-train", seed=2)[7], mazes("15-train", split="eval", seed=1)[7],
             mazes("15-train", seed=1, num_commands=199)[7]]  # fmt: skip
    assert len({task.walls.tobytes() for task in found}) == len(found)


def test_tasks_with_many_commands_are_compared_and_resampled():
    task = mazes("paper-train")[0]
    assert task == mazes("paper-train")[0]
    assert hash(task) == hash(mazes("paper-train")[0])
    assert len(task.resample(("commands",), seed=0).commands) == 2048


def test_names_tell_specs_apart():
    assert mazes(sizes=7)[0].name != mazes(sizes=9)[0].name
    task = mazes("15-train")[0]
    assert task.resample(("start",), seed=1).name != task.resample(("commands",), seed=1).name


def test_equal_numbers_of_other_types_make_equal_tasks():
    task = mazes("15-train")[0]
    other = dataclasses.replace(task, cell_length=2, pitch=np.float64(0.0), start_heading=np.int64(task.start_heading))
    assert other == task
    assert type(other.cell_length) is float
    assert type(other.start_heading) is int
    assert other.resample(seed=1) == task.resample(seed=1)


def test_ranges_are_covered_evenly():
    # False-alarm rate 1e-6 each.
    source = mazes(cell_length=(1.0, 3.0), num_targets=(2, 5), sizes=(7, 9))
    tasks = [source[index] for index in range(1500)]
    lengths = [task.cell_length for task in tasks]
    assert stats.kstest(lengths, stats.uniform(1.0, 2.0).cdf).pvalue > 1e-6
    for values, kinds in (([len(task.target_cells) for task in tasks], 4), ([task.size for task in tasks], 2),
                          ([task.start_heading for task in tasks], 4)):  # fmt: skip
        counts = np.unique(values, return_counts=True)[1]
        assert len(counts) == kinds
        assert stats.chisquare(counts).pvalue > 1e-6


def test_commands_are_uniform_but_for_repeats():
    commands = mazes(num_commands=60_000, num_targets=4)[0].commands
    pairs = np.zeros((4, 4))
    np.add.at(pairs, (commands[:-1], commands[1:]), 1)
    assert not pairs.diagonal().any()
    assert stats.chisquare(pairs[~np.eye(4, dtype=bool)]).pvalue > 1e-6
    free = mazes(num_commands=60_000, num_targets=4, allow_repeats=True)[0].commands
    pairs = np.zeros((4, 4))
    np.add.at(pairs, (free[:-1], free[1:]), 1)
    assert stats.chisquare(pairs.ravel()).pvalue > 1e-6


def test_resampled_tasks_keep_the_maze():
    task = mazes("15-train")[0]
    for what, kept in {
        ("start",): ["target_cells", "target_colours", "commands"],
        ("targets",): ["start", "target_colours", "commands"],
        ("colours",): ["start", "target_cells", "commands"],
        ("commands",): ["start", "target_cells", "target_colours"],
        ("start", "targets", "commands"): ["target_colours"],
    }.items():
        again = task.resample(what, seed=3)
        assert np.array_equal(again.walls, task.walls)
        assert np.array_equal(again.wall_looks, task.wall_looks)
        for field in kept:
            assert np.array_equal(getattr(again, field), getattr(task, field))
        changed = {"start": "start", "targets": "target_cells", "colours": "target_colours", "commands": "commands"}
        assert all(not np.array_equal(getattr(again, changed[part]), getattr(task, changed[part])) for part in what)
        assert again == task.resample(what, seed=3)
        assert again != task.resample(what, seed=4)
        assert again != task.resample(what, seed=3, index=1)


def test_bad_resampling_and_cells_are_refused():
    task = mazes("15-train")[0]
    with pytest.raises(ValueError, match="what is 'start'; allowed: a tuple"):
        task.resample("start", seed=0)
    with pytest.raises(ValueError, match="what is 'walls'"):
        task.resample(("walls",), seed=0)
    for cell in ((0, 0), (300, 2), (1,), None):
        with pytest.raises(ValueError, match="cell is"):
            task.distances(cell)


def test_a_staircase_as_long_as_can_be_has_its_distances():
    # A snake through a maze of 255 x 255: more steps than 16 bits hold.
    walls = np.ones((255, 255), dtype=np.uint8)
    walls[1:-1:2, 1:-1] = 0
    for row in range(2, 253, 2):
        walls[row, 253 if row % 4 == 2 else 1] = 0
    task = mazes(sizes=255, num_commands=1)[0]
    snake = dataclasses.replace(
        task,
        walls=walls,
        start=(1, 1),
        target_cells=[[253, 253]],
        target_colours=[0],
        target_values=[0.0],
        commands=[0],
    )
    assert snake.distances((1, 1)).max() == (walls == 0).sum() - 1


def test_a_new_start_is_on_no_target():
    task = mazes(sizes=7, num_targets=15, style="tree")[0]
    assert all(list(task.resample(("start",), seed=seed).start) not in task.target_cells.tolist() for seed in range(40))


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_files_give_the_task_back(source, suffix, tmp_path):
    task = source[3]
    task.save(tmp_path / f"task{suffix}")
    back = MazeTask.load(tmp_path / f"task{suffix}")
    assert back == task
    assert back.name == task.name
    for field in dataclasses.fields(task):
        assert type(getattr(back, field.name)) is type(getattr(task, field.name)), field.name


def test_damaged_files_are_named(tmp_path):
    path = tmp_path / "task.json"
    with pytest.raises(ValueError, match=r"task\.json: no such file"):
        MazeTask.load(path)
    with pytest.raises(ValueError, match=r"task\.npz: no such file"):
        MazeTask.load(tmp_path / "task.npz")
    with pytest.raises(ValueError, match=r"ends in \.json or \.npz"):
        MazeTask.load(tmp_path / "task.txt")
    task = mazes("15-train")[0]
    with pytest.raises(ValueError, match=r"ends in \.json or \.npz"):
        task.save(tmp_path / "task.txt")
    task.save(path)
    values = json.loads(path.read_text())
    for field, value, said in [
        ("format", "mazeworld@0", "its format is 'mazeworld@0'; allowed: 'mazeworld@1'"),
        ("walls", [[1]], r"task\.json: walls has shape \(1, 1\)"),
        ("walls", 5, r"task\.json: walls has shape"),
        ("target_cells", 5, r"task\.json: target_cells has shape"),
        ("start", None, r"task\.json: start is None"),
        ("start", 5, r"task\.json: start is 5"),
        ("textures", 5, r"task\.json: textures is 5"),
        ("pitch", "up", r"task\.json: pitch is 'up'"),
        ("colour", 1, "colour is missing or unknown"),
    ]:
        path.write_text(json.dumps({**values, field: value}))
        with pytest.raises(ValueError, match=said):
            MazeTask.load(path)
    task.save(tmp_path / "task.npz")
    whole = (tmp_path / "task.npz").read_bytes()
    (tmp_path / "task.npz").write_bytes(whole[:200] + bytes([whole[200] ^ 255]) + whole[201:])
    with pytest.raises(ValueError, match=r"task\.npz: not a task file"):
        MazeTask.load(tmp_path / "task.npz")
    for cut in (10, len(whole) // 2, len(whole) - 5):
        (tmp_path / "task.npz").write_bytes(whole[:cut])
        with pytest.raises(ValueError, match=r"task\.npz: not a task file"):
            MazeTask.load(tmp_path / "task.npz")


def test_tasks_of_ones_own_are_checked():
    task = mazes("15-train")[0]
    row, column = task.start
    sealed = task.walls.copy()
    sealed[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2] = 1
    sealed[row, column] = 0
    open_border = task.walls.copy()
    open_border[0, 3] = 0
    bad = {
        "walls has open cells": {"walls": sealed},
        "walls is open at the border": {"walls": open_border},
        "walls has shape": {"walls": task.walls[:-1]},
        "walls has the value 2": {"walls": task.walls * 2},
        "start is": {"start": (0, 0)},
        "start": {"start": (1, 99)},
        "target_cells is": {"target_cells": [list(task.start)] * 5},
        "target_cells has shape": {"target_cells": np.zeros((0, 2), dtype=int)},
        "target_colours is": {"target_colours": [1, 1, 2, 3, 4]},
        "commands has": {"commands": [7]},
        "eye_height": {"eye_height": 3.2},
        "cell_length": {"cell_length": 0.4},
        "field_of_view": {"field_of_view": 3.0},
        "pitch": {"pitch": 1.5},
        "target_values": {"target_values": [float("nan")] * 5},
        "wall_looks": {"wall_looks": task.wall_looks.astype(float)},
    }
    for said, changes in bad.items():
        with pytest.raises(ValueError, match=said):
            dataclasses.replace(task, **changes)


def test_arrays_of_a_task_cannot_be_written():
    task = mazes("15-train")[0]
    for one in (task, pickle.loads(pickle.dumps(task))):
        with pytest.raises(ValueError, match="read-only"):
            one.walls[1, 1] = 0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"sizes": 8}, "sizes has 8; allowed: odd integers"),
        ({"sizes": 5}, r"sizes is 5; allowed: an integer in \[7, 255\]"),
        ({"sizes": ()}, "sizes is"),
        ({"wall_density": 0.43}, r"wall_density is .*allowed at size 15: at most 0\.4260"),
        ({"wall_density": (0.3, 0.2)}, "low at most high"),
        ({"num_targets": 16}, r"num_targets is 16; allowed: an integer in \[1, 15\]"),
        ({"num_targets": 1}, "num_targets is .*at least 2"),
        ({"eye_height": 3.2}, "eye_height is .*below the ceiling"),
        ({"style": "treee"}, "did you mean tree"),
        ({"view_range": -1}, "view_range is -1"),
        ({"field_of_view": 3.1}, "field_of_view is 3.1"),
        ({"cell_length": 0.3}, "cell_length is 0.3"),
        ({"num_commands": 0}, "num_commands is 0"),
        ({"pitch": (0, 1, 2)}, "pitch is .*a number or a range"),
        ({"loops": 1}, "loops is 1"),
        ({"textures": ""}, "textures is ''"),
        ({"num_looks": 0}, "num_looks is 0"),
    ],
)
def test_bad_specs_are_refused(fields, said):
    with pytest.raises(ValueError, match=said):
        MazeTaskSpec(**fields)


def test_a_number_is_a_range_of_itself_and_json_gives_the_spec_back():
    spec = MazeTaskSpec(cell_length=3, sizes=9, wall_density=0.3, num_targets=4)
    assert spec == MazeTaskSpec(cell_length=(3.0, 3.0), sizes=(9,), wall_density=(0.3, 0.3), num_targets=(4, 4))
    assert from_mapping(MazeTaskSpec, to_mapping(spec)) == spec
    assert from_mapping(MazeTaskSpec, to_mapping(spec)).identity == spec.identity


@given(st.sampled_from(range(7, 256, 2)))
def test_default_density_is_the_smaller_of_forty_percent_and_a_trees(size):
    low, high = MazeTaskSpec(sizes=size).density_range(size)
    assert low == high == min(0.4, tree_density(size))


def test_the_explicit_density_may_be_that_of_a_tree():
    task = mazes(wall_density=tree_density(15))[0]
    assert task.walls[1:-1, 1:-1].mean() == pytest.approx(tree_density(15))


def test_more_targets_than_colours_cannot_be():
    assert len(COLOURS) == 15
    assert len(set(COLOURS)) == 15
    assert mazeworld.mazes(num_targets=15)[0].target_colours.tolist() != list(range(15))
