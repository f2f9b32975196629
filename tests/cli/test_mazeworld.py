"""What the mazeworld commands do, and refuse."""

import matplotlib.image
import numpy as np
import pytest

from neophyte.core import registry
from neophyte.mazeworld import MazeTask, mazes

from .conftest import assert_refused
from .test_commands import parsed


def test_list_names_the_family(cli):
    shown = parsed(cli("list", "--json"))
    assert {task.name for task in registry.tasks("mazeworld")} <= shown["tasks"].keys()
    assert {"gpicl-fig6", "gpicl-fig14"} <= shown["experiments"].keys()


def test_sample_says_what_the_task_is(cli):
    shown = parsed(cli("sample", "mazeworld", 7, "--preset", "25-train", "--seed", 3, "--num-commands", 9, "--json"))
    task = mazes("25-train", seed=3, num_commands=9)[7]
    assert shown["task"] == task.name
    assert np.array_equal(shown["walls"], task.walls)
    assert shown["commands"] == task.commands.tolist()
    assert len(shown["shortest_steps"]) == 9


def test_sample_draws_the_map_and_views(cli, tmp_path):
    result = cli("sample", "mazeworld", "--sizes", 7, "--views", 2, "--size", 32, "--save", "task.npz")
    assert result.code == 0
    assert result.out.startswith(f"maze.png: {mazes(sizes=7)[0].name}, 7 x 7 cells")
    assert matplotlib.image.imread(tmp_path / "maze.png")[..., :3].std() > 0.05
    assert MazeTask.load(tmp_path / "task.npz") == mazes(sizes=7)[0]


def test_bench_measures_everything(cli):
    sizes = ("--size", 16, "--actions", "turn", "--threads", 1, "--worlds", 3, "--steps", 2, "--repeats", 1)
    shown = parsed(cli("bench", "mazeworld", *sizes, "--json"))
    assert shown["family"] == "mazeworld"
    found = [(result["name"], result["unit"]) for result in shown["results"]]
    assert found == [("worlds", "frames/s"), ("vector environment", "frames/s"), ("one environment", "frames/s"),
                     ("writing only", "frames/s"), ("tasks", "tasks/s"), ("tasks", "tasks/s")]  # fmt: skip
    assert all(result["value"] > 0 for result in shown["results"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sample", "mazeworld", "--sizes", 8), ["sizes has 8", "odd integers in [7, 255]"]),
        (("sample", "mazeworld", "--sizes", 5), ["sizes is 5"]),
        (("sample", "mazeworld", "--wall-density", 0.5, 0.5), ["wall_density", "0.4260"]),
        (("sample", "mazeworld", "--num-targets", 16, 16), ["num_targets is 16", "[1, 15]"]),
        (("sample", "mazeworld", "--eye-height", 4, 4), ["eye_height", "below the ceiling"]),
        (("sample", "mazeworld", "--textures", "nowhere"), ["textures is 'nowhere'", "folder of images"]),
        (("sample", "mazeworld", "--preset", "16-train"), ["preset is '16-train'", "did you mean"]),
        (("sample", "mazeworld", "--size", 0), ["size is 0"]),
        (("sample", "mazeworld", "--views", 0), ["views is 0"]),
        (("sample", "mazeworld", -1), ["index is -1"]),
        (("sample", "mazeworld", "--save", "task.txt"), ["task.txt", ".json or .npz"]),
        (("play", "--task", "none.json"), ["none.json: no such file"]),
        (("play", "--actions", "fly"), ["actions is 'fly'"]),
        (("bench", "mazeworld", "--size", 0), ["sizes is 0"]),
        (("bench", "mazeworld", "--actions", "fly"), ["actions is 'fly'"]),
    ],
    ids=str,
)
def test_bad_input_gets_one_line(cli, arguments, words):
    assert_refused(cli(*arguments), *words)


def test_an_empty_folder_of_textures_is_refused(cli, tmp_path):
    (tmp_path / "empty").mkdir()
    assert_refused(cli("sample", "mazeworld", "--textures", "empty"), "holds no image")
