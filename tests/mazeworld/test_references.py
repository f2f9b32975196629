import dataclasses

import numpy as np
import pytest

from neophyte.core import registry
from neophyte.core.contract import check_task
from neophyte.mazeworld import mazes, random_walk_steps, shortest_steps, wall_follower_steps
from neophyte.mazeworld.dataset import Mazes

WAYS = ((0, 1), (1, 0), (0, -1), (-1, 0))


def test_shortest_steps_are_the_distances_between_commands():
    task = mazes("15-train")[0]
    steps = shortest_steps(task)
    place = task.start
    for command, count in zip(task.commands[:20], steps, strict=False):
        goal = tuple(task.target_cells[command])
        assert task.distances(place)[goal] == count
        place = goal


def test_the_random_walk_takes_as_long_as_simulated():
    task = mazes(sizes=7)[1]
    goal = tuple(task.target_cells[task.commands[0]])
    rng = np.random.default_rng(0)
    taken = []
    for _ in range(1500):
        place, steps = task.start, 0
        while place != goal:
            down, right = WAYS[rng.integers(4)]
            other = (place[0] + down, place[1] + right)
            place, steps = (place if task.walls[other] else other), steps + 1
        taken.append(steps)
    exact = random_walk_steps(task)
    assert abs(np.mean(taken) - exact) < 5 * np.std(taken) / np.sqrt(len(taken))  # false-alarm rate 6e-7


def test_next_to_the_target_a_random_walk_from_a_dead_end():
    # A corridor of k cells, from its end to the other: the blocked walk needs 2 k (k - 1) moves ... along one line.
    task = mazes(sizes=7)[0]
    walls = np.ones((7, 7), dtype=np.uint8)
    walls[1, 1:6] = 0
    corridor = dataclasses.replace(
        task, walls=walls, start=(1, 1), target_cells=[[1, 5]], target_colours=[0], target_values=[0.1], commands=[0]
    )
    # Lazy walk (1/4 each way) on 0..4, reflecting at 0, hitting 4: h = 2 * 4 * (4 + 1).
    assert random_walk_steps(corridor) == pytest.approx(2 * 4 * 5)
    assert shortest_steps(corridor).tolist() == [4]
    assert wall_follower_steps(corridor) == 4


def test_bad_cells_of_a_walk_are_refused():
    task = mazes(sizes=7)[0]
    assert random_walk_steps(task, task.start) == 0.0
    with pytest.raises(ValueError, match="a wall"):
        random_walk_steps(task, (0, 0))
    with pytest.raises(ValueError, match="open cells; allowed: at most"):
        random_walk_steps(mazes(sizes=101)[0])


def test_the_wall_follower_solves_every_tree():
    for index in range(40):
        task = mazes(loops=False)[index]
        steps = wall_follower_steps(task)
        assert shortest_steps(task)[0] <= steps <= 2 * int((task.walls == 0).sum())


@pytest.mark.parametrize("task", registry.tasks("mazeworld"), ids=lambda task: task.name)
def test_registered_tasks_keep_the_contract(task):
    check_task(task)


def test_arrays_are_the_tasks_padded():
    source = mazes(sizes=(7, 9), num_targets=(2, 5))
    found = source.arrays(np.arange(30))
    for index in range(30):
        task = source[index]
        n, count = task.size, len(task.target_cells)
        assert np.array_equal(found["walls"][index, :n, :n], task.walls)
        assert found["walls"][index, n:].all()
        assert np.array_equal(found["target_cells"][index, :count], task.target_cells)
        assert (found["target_cells"][index, count:] == -1).all()
        assert found["start"][index].tolist() == [*task.start, task.start_heading]


def test_mazes_are_made_by_preset_and_by_fields():
    assert isinstance(mazes("15-train"), Mazes)
    assert mazes("15-train", sizes=(9,))[0].size == 9
    with pytest.raises(ValueError, match="did you mean 15-train"):
        mazes("15-trian")


def test_a_set_ends_and_a_stream_goes_on():
    source = mazes("15-eval", num_tasks=3)
    assert [task.name for task in source] == [source.task(index).name for index in range(3)]
    assert source[-1] == source[2] == next(source.stream(start=2))
    assert len(source) == 3
    assert len(mazes("15-eval")) == 720
    with pytest.raises(IndexError, match="index is 3; allowed"):
        source[3]
    with pytest.raises(ValueError, match="index is -1"):
        source.task(-1)
    # The size of the set is no part of a task's address; all else is.
    assert source.task(5) == mazes("15-eval").task(5)
    assert next(source.stream(start=2**62)) == source.task(2**62)
    assert not np.array_equal(mazes("15-eval", step_cost=0.5).task(5).walls, source.task(5).walls)
