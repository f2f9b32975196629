import math
import os
import pickle
import signal
import warnings

import numpy as np
import pytest

from neophyte.core import jit
from neophyte.mazeworld import World, mazes
from neophyte.mazeworld.motion_kernels import COMMAND, DISTANCE, GOALS, HIDDEN_STEPS, LIFE, STEPS, TARGET

WAYS = ((0, 1), (1, 0), (0, -1), (-1, 0))


def world_of(task, **settings):
    world = World(1, **settings)
    world.load(0, task)
    return world


def compass_action(world):
    """The first move of a shortest way to the target."""
    row, column = world.integers[0, :2]
    field = world.distances[0]
    for action, (down, right) in {1: (0, -1), 2: (0, 1), 3: (-1, 0), 4: (1, 0)}.items():
        if field[row + down, column + right] == field[row, column] - 1:
            return np.array([action])
    raise AssertionError("no way on")


def test_a_walk_through_all_commands():
    task = mazes("15-train", num_commands=12, step_cost=0.25, collision_cost=0.5)[1]
    world = world_of(task, actions="compass")
    total, reached = 0.0, []
    while not world.terminated[0]:
        target, steps = int(world.integers[0, TARGET]), int(world.integers[0, DISTANCE])
        for _ in range(steps):
            world.step(compass_action(world))
            total += world.rewards[0]
            assert not world.truncated[0]
        assert tuple(world.integers[0, :2]) == tuple(task.target_cells[target])
        assert world.rewards[0] == pytest.approx(task.goal_reward - 0.25)
        reached.append(target)
        assert world.integers[0, GOALS] == len(reached)
    assert reached == task.commands.tolist()
    assert total == pytest.approx(12 * task.goal_reward - 0.25 * world.integers[0, STEPS])


def test_a_blocked_move_costs_the_collision_cost():
    task = mazes("15-train", collision_cost=0.5)[0]
    world = world_of(task, actions="compass")
    row, column = task.start
    for action, (down, right) in {1: (0, -1), 2: (0, 1), 3: (-1, 0), 4: (1, 0)}.items():
        world.load(0, task)
        world.step(np.array([action]))
        blocked = bool(task.walls[row + down, column + right])
        goal = world.integers[0, GOALS] * task.goal_reward
        assert world.rewards[0] == pytest.approx(-0.01 - 0.5 * blocked + goal)


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_truncation_comes_at_exactly_the_limit(limit):
    world = world_of(mazes("15-train")[0], max_steps=limit)
    for step in range(1, limit + 1):
        world.step(np.array([0]))
        assert bool(world.truncated[0]) == (step == limit)
        assert not world.terminated[0]


def test_an_end_at_the_limit_is_a_termination():
    task = mazes("15-train", num_commands=1)[1]
    world = world_of(task, actions="compass")
    steps = int(world.integers[0, DISTANCE])
    world = world_of(task, actions="compass", max_steps=steps)
    for _ in range(steps):
        world.step(compass_action(world))
    assert world.terminated[0]
    assert not world.truncated[0]


def test_a_repeated_command_is_reached_by_the_next_step():
    source = mazes("15-train", allow_repeats=True, num_commands=100)
    task = next(task for task in source if task.commands[0] == task.commands[1])
    world = world_of(task, actions="compass")
    while world.integers[0, GOALS] == 0:
        world.step(compass_action(world))
    world.step(np.array([0]))
    assert world.integers[0, GOALS] == 2


def test_survival_by_the_plain_rule():
    task = mazes("15-train", sizes=7, num_targets=6, step_cost=0.003)[2]
    world = world_of(task, actions="compass", mode="survival", max_steps=5000)
    rng = np.random.default_rng(0)
    life, hidden = 1.0, {}
    for step in range(1, 3001):
        world.step(rng.integers(5, size=1))
        cell = tuple(int(part) for part in world.integers[0, :2])
        hidden = {k: until for k, until in hidden.items() if until > step}
        gained = 0.0
        for k, place in enumerate(task.target_cells.tolist()):
            if tuple(place) == cell and k not in hidden:
                gained, hidden[k] = task.target_values[k], step + HIDDEN_STEPS
        life = min(life - 0.003 + gained, 3.0)
        assert world.reals[0, LIFE] == pytest.approx(life)
        assert world.rewards[0] == pytest.approx(gained - 0.003)
        assert bool(world.terminated[0]) == (life < 0)
        shining = {k for k, place in enumerate(task.target_cells) if world.marks[0][tuple(place)] == k + 1}
        assert shining == set(range(6)) - set(hidden)
        if life < 0:
            break
    assert step > 300


def test_worlds_of_a_batch_do_not_know_of_each_other():
    source = mazes("15-train", sizes=(7, 9, 15), num_targets=(2, 7))
    rng = np.random.default_rng(1)
    actions = rng.uniform(-1, 1, (50, 5, 2))
    batch = World(5, actions="continuous")
    for index in range(5):
        batch.load(index, source[index])
    alone = [world_of(source[index], actions="continuous") for index in range(5)]
    for chosen in actions:
        batch.step(chosen)
        for index, world in enumerate(alone):
            world.step(chosen[index : index + 1])
    frames = batch.draw(32, 40)
    for index, world in enumerate(alone):
        n = source[index].size
        assert np.array_equal(batch.integers[index], world.integers[0])
        assert np.array_equal(batch.reals[index], world.reals[0])
        assert np.array_equal(batch.distances[index, :n, :n], world.distances[0])
        assert np.array_equal(frames[index], world.draw(32, 40)[0])


@pytest.mark.parametrize("mode", ["navigation", "survival"])
@pytest.mark.parametrize("actions", ["turn", "continuous"])
def test_a_restored_world_goes_on_as_before(mode, actions):
    rng = np.random.default_rng(2)

    def act(world):
        chosen = rng.uniform(-1, 1, (3, 2)) if actions == "continuous" else rng.integers(5, size=3)
        world.step(chosen)
        return chosen

    world = World(3, actions=actions, mode=mode)
    for index in range(3):
        world.load(index, mazes("15-train")[index])
    for _ in range(40):
        act(world)
    saved = pickle.loads(pickle.dumps(world.state()))
    later = [act(world) for _ in range(40)]
    end, frame = world.state(), world.draw(24, 24)
    other = World(3, actions=actions, mode=mode)
    other.restore(saved)
    for chosen in later:
        other.step(chosen)
    for name, value in end.items():
        assert all(a == b for a, b in zip(value, other.state()[name], strict=True)) if name == "tasks" else \
               np.array_equal(value, other.state()[name])  # fmt: skip
    assert np.array_equal(frame, other.draw(24, 24))


def test_a_world_that_is_loaded_again_begins_anew():
    task = mazes("15-train")[0]
    world, fresh = world_of(task, mode="survival"), world_of(task, mode="survival")
    for _ in range(30):
        world.step(np.array([4]))
        world.step(np.array([1]))
    world.load(0, task)
    for name in ("integers", "reals", "marks", "hidden", "distances", "rewards", "terminated", "truncated"):
        assert np.array_equal(getattr(world, name), getattr(fresh, name)), name


def test_smaller_tasks_after_larger_ones_are_as_alone():
    small = mazes("15-train", sizes=7, num_targets=2, num_commands=3)[0]
    world = world_of(mazes("25-train")[0])
    world.load(0, small)
    alone = world_of(small)
    assert np.array_equal(world.draw(33, 33), alone.draw(33, 33))
    assert np.array_equal(world.draw_window(12), alone.draw_window(12))
    assert world.integers[0, COMMAND] == 0


@pytest.mark.parametrize(
    ("actions", "bad"),
    [
        ("turn", [5]), ("turn", [-1]), ("turn", [1.0]), ("turn", [1, 2]), ("turn", 1), ("turn", [True]),
        ("compass", [7]), ("continuous", [[0.0, 1.01]]), ("continuous", [[math.nan, 0.0]]), ("continuous", [0.0, 0.0]),
        ("continuous", [[math.inf, 0.0]]), ("continuous", [["a", "b"]]),
    ],
)  # fmt: skip
def test_bad_actions_are_refused_and_change_nothing(actions, bad):
    world = world_of(mazes("15-train")[0], actions=actions)
    before = world.state()
    with pytest.raises(ValueError, match="action"):
        world.step(np.array(bad))
    assert np.array_equal(before["integers"], world.integers)
    assert np.array_equal(before["reals"], world.reals)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"num_worlds": 0}, "num_worlds"), ({"actions": "walk"}, "actions"), ({"mode": "play"}, "mode"),
        ({"max_steps": 0}, "max_steps"), ({"seconds": 0.0}, "seconds"), ({"threads": 0}, "threads"),
    ],
)  # fmt: skip
def test_bad_settings_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        World(**settings)


def test_bad_sizes_and_places_are_refused():
    world = world_of(mazes("15-train")[0])
    with pytest.raises(ValueError, match="height is 0"):
        world.draw(0, 8)
    with pytest.raises(ValueError, match="radius is 0"):
        world.draw_window(0)
    with pytest.raises(ValueError, match="away from every wall"):
        world.place(0, (0.5, 0.5, 0.0))
    for bad in (np.zeros((1, 8, 8, 3)), np.zeros((1, 8, 9, 3), np.uint8), np.zeros((1, 8, 16, 3), np.uint8)[:, :, ::2]):
        with pytest.raises(ValueError, match="out has shape"):
            world.draw(8, 8, out=bad)


@pytest.mark.parametrize("loaded", [[], [1]])
def test_worlds_without_a_task_are_refused(loaded):
    world = World(2)
    for index in loaded:
        world.load(index, mazes("15-train")[0])
    calls = [lambda: world.step(np.array([0, 0])), world.draw, world.draw_depth, world.draw_window,
             lambda: world.place(1, (3.0, 3.0, 0.0))]  # fmt: skip
    for call in calls:
        with pytest.raises(ValueError, match=r"worlds \[0.* have no task"):
            call()


def test_a_place_must_be_free():
    task = mazes("15-train", wall_density=0.1)[0]
    steered, turned = world_of(task, actions="continuous"), world_of(task)
    row, column = task.start
    x, y = (column + 0.5) * 2.0, (row + 0.5) * 2.0
    steered.place(0, (x + 0.3, y, 7.0))
    assert steered.reals[0, :3].tolist() == [x + 0.3, y, 7.0 % (2 * math.pi)]
    wall = np.argwhere((task.walls == 1) & (np.roll(task.walls, -1, axis=1) == 0))[0]  # a wall, open to the right
    edge, middle = (wall[1] + 1) * 2.0, (wall[0] + 0.5) * 2.0
    steered.place(0, (edge + 0.201, middle, 0.0))
    for pose in ((edge + 0.199, middle, 0.0), (edge - 0.1, middle, 0.0), (-1.0, 1.0, 0.0), (math.nan, 1.0, 0.0),
                 (x, y, math.inf), (1e9, 1.0, 0.0)):  # fmt: skip
        with pytest.raises(ValueError, match="pose is"):
            steered.place(0, pose)
    turned.place(0, (x, y, 2.5 * math.pi))
    assert turned.integers[0, :3].tolist() == [row, column, 1]
    for pose in ((x + 0.3, y, 0.0), (x, y, 0.3)):
        with pytest.raises(ValueError, match="middle of a cell"):
            turned.place(0, pose)


def test_tasks_of_several_libraries_are_drawn_together():
    tasks = [mazes("15-train")[0], mazes("15-eval")[0], mazes("15-train", num_looks=8)[1]]
    batch = World(3)
    for index, task in enumerate(tasks):
        batch.load(index, task)
    for index, task in enumerate(tasks):
        assert np.array_equal(batch.draw(32, 32)[index], world_of(task).draw(32, 32)[0])


def test_states_of_larger_worlds_are_restored_into_smaller_ones():
    large, small = mazes("15-train", num_targets=9)[0], mazes("15-train", sizes=7)[0]
    world = world_of(large)
    world.load(0, small)
    world.step(np.array([4]))
    state = world.state()
    fresh = World(1)
    fresh.restore(state)
    assert np.array_equal(fresh.draw(16, 16), world.draw(16, 16))
    again = World(1)
    assert again.state()["tasks"] == [None]
    fresh.restore(again.state())
    with pytest.raises(ValueError, match="have no task"):
        fresh.draw()
    with pytest.raises(ValueError, match="state has 1 worlds; allowed: 2"):
        World(2).restore(state)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_world_with_threads_is_drawn_in_a_forked_process():
    world = World(4, threads=2)
    for index in range(4):
        world.load(index, mazes("15-train")[index])
    seen = world.draw(16, 16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, which is the point
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if np.array_equal(world.draw(16, 16), seen) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(world.draw(16, 16), seen)


def test_compiling_is_told_once(caplog):
    kernel = jit.kernel(lambda x: x + 1)  # a fresh one: no cache has it
    with jit.tell_of_compiling(kernel):
        kernel(1)
    assert len(caplog.records) == 1
    assert "compiled" in caplog.text
    with jit.tell_of_compiling(kernel):
        kernel(2)
    assert len(caplog.records) == 1


@pytest.mark.parametrize("radius", [1, 2, 9])
def test_windows_show_the_map_around_the_agent(radius):
    task = mazes("15-train", num_targets=12)[3]
    world = world_of(task, actions="compass")
    from neophyte.mazeworld import COLOURS

    rng = np.random.default_rng(0)
    for _ in range(60):
        world.step(rng.integers(5, size=1))
        row, column = world.integers[0, :2]
        found = world.draw_window(radius)[0]
        for i in range(2 * radius + 1):
            for j in range(2 * radius + 1):
                r, c = row + i - radius, column + j - radius
                targets = {tuple(place): COLOURS[k] for place, k in
                           zip(task.target_cells.tolist(), task.target_colours, strict=True)}  # fmt: skip
                if i == j == radius:
                    expected = COLOURS[task.target_colours[world.integers[0, TARGET]]]
                elif not (0 <= r < 15 and 0 <= c < 15) or task.walls[r, c]:
                    expected = (0, 0, 0)
                else:
                    expected = targets.get((r, c), (255, 255, 255))
                assert tuple(found[i, j]) == expected
