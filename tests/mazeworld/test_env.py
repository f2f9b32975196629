import copy
import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import RecordEpisodeStatistics

from neophyte.gymnasium_ids import IDS as SETTINGS
from neophyte.mazeworld import MazeTask, mazes
from neophyte.mazeworld.env import LANE

IDS = list(SETTINGS)
SMALL = {"height": 24, "width": 32}


def make(name=IDS[0], **settings):
    return gymnasium.make(name, **{**SMALL, **settings})


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    return type(one) is type(other) and np.array_equal(one, other)


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("settings", [{}, {"channels_first": True}, {"dictionary": True}], ids=str)
def test_gymnasiums_own_check_passes(name, settings):
    check_env(make(name, render_mode="rgb_array", **settings).unwrapped, skip_render_check=False)


def test_the_check_passes_with_depth():
    check_env(make(dictionary=True, depth=True).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("name", IDS)
def test_a_seed_fixes_the_episode(name):
    env, other = make(name), make(name)
    env.reset(seed=1)
    for _ in range(30):
        env.step(env.action_space.sample())
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(25)]
    runs = []
    for one in (env, other):  # one that was used, one that is fresh
        runs.append([one.reset(seed=7), *(one.step(action) for action in actions)])
    for a, b in zip(*runs, strict=True):
        assert all(same(x, y) for x, y in zip(a, b, strict=True))
    assert runs[0][0][1]["task"].endswith("/train/7/0")


def test_resets_without_a_seed_go_on_to_the_next_task():
    env = make()
    names = [env.reset(seed=5)[1]["task"], env.reset()[1]["task"], env.reset()[1]["task"]]
    assert [name.partition("/")[2] for name in names] == [f"train/5/{index}" for index in range(3)]


def test_without_any_seed_tasks_differ():
    assert make().reset()[1]["task"] != make().reset()[1]["task"]


def test_options_choose_the_task():
    env = make()
    env.reset(seed=5)
    assert env.reset(options={"index": 9})[1]["task"].endswith("/train/5/9")
    own = mazes("15-train", seed=77)[3]
    observation, info = env.reset(options={"task": own})
    assert info["task"] == own.name
    assert env.reset()[1]["task"].endswith("/train/5/1")
    again, _ = env.reset(options={"task": own})
    assert np.array_equal(observation, again)
    for options, said in [({"tsk": own}, "allowed: task"), ({"task": 3}, "a MazeTask"), ({"index": -1}, "index is -1")]:
        with pytest.raises(ValueError, match=said):
            env.reset(options=options)


def test_a_task_file_can_be_played(tmp_path):
    mazes("15-eval")[2].save(tmp_path / "task.npz")
    env = make()
    env.reset(seed=0, options={"task": MazeTask.load(tmp_path / "task.npz")})
    env.step(0)


def test_splits_of_train_and_eval_share_no_task():
    train, held_out = make(preset="15-train"), make(preset="15-eval")
    walls = []
    for env in (train, held_out):
        for seed in range(20):
            env.reset(seed=seed)
            walls.append(env.unwrapped.batch.world.tasks[0].walls.tobytes())
    assert len(set(walls)) == 40


ENDS = {
    "at the limit": {"max_steps": 9},
    "by and by": {
        "sizes": 7,
        "num_commands": 1,
        "max_steps": 60,
        "step_cost": 0.08,
        "num_targets": 6,
        "seconds": 2.0,
    },
}


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("dictionary", [False, True])
def test_a_vector_step_is_the_single_environments_steps(name, mode, ends, dictionary):
    settings = {**ENDS[ends], **SMALL, "dictionary": dictionary, "depth": dictionary and "2D" not in name}
    vector = gymnasium.make_vec(name, num_envs=4, autoreset_mode=mode, **settings)
    twin = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(name, **settings)] * 4, autoreset_mode=mode)
    seeds = [3, 1, 4, 15]
    found, expected = vector.reset(seed=seeds), twin.reset(seed=seeds)
    vector.action_space.seed(0)
    counts = set()
    for step in range(150):
        assert alike(found[0], expected[0]), step
        info, other = found[-1], expected[-1]
        assert info.keys() == other.keys()
        for key in other.keys() - {"final_obs", "final_info"}:
            assert np.array_equal(info[key], other[key]), (step, key)
        if "final_obs" in other:
            for i in np.flatnonzero(other["_final_obs"]):
                assert alike(info["final_obs"][i], other["final_obs"][i])
                for key, value in other["final_info"].items():
                    assert np.array_equal(info["final_info"][key][i], value[i]), (step, key)
        if step:
            for a, b in zip(found[1:4], expected[1:4], strict=True):
                assert np.array_equal(a, b)
            counts |= {int((found[2] | found[3]).sum())}
        actions = vector.action_space.sample()
        found, expected = vector.step(actions), twin.step(actions)
    assert counts >= ({0, 4} if ends == "at the limit" else {0, 1})


def alike(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[name], other[name]) for name in one)
    return np.array_equal(one, other)


def test_an_integer_seed_gives_each_environment_a_lane_of_its_own():
    vector = gymnasium.make_vec(IDS[0], num_envs=3, **SMALL)
    _, info = vector.reset(seed=5)
    addresses = [name.partition("/")[2] for name in info["task"]]
    assert addresses == [f"train/5/{lane * LANE}" for lane in range(3)]
    _, info = vector.reset()
    addresses = [name.partition("/")[2] for name in info["task"]]
    assert addresses == [f"train/5/{lane * LANE + 1}" for lane in range(3)]
    _, other = vector.reset(seed=6)
    assert not set(other["task"]) & set(info["task"])


def test_next_step_autoreset_ignores_the_action_of_the_reset():
    vector = gymnasium.make_vec(IDS[0], num_envs=2, max_steps=3, **SMALL)
    assert vector.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    vector.reset(seed=0)
    for step in range(1, 4):
        *_, truncated, info = vector.step(np.array([4, 4]))
        assert truncated.tolist() == [step == 3] * 2
    first = vector.step(np.array([4, 4]))
    assert first[1].tolist() == [0.0, 0.0]
    assert not (first[2] | first[3]).any()
    assert first[4]["steps"].tolist() == [0, 0]
    assert (first[4]["task"] != info["task"]).all()


def test_disabled_autoreset_wants_resets_of_what_has_ended():
    vector = gymnasium.make_vec(IDS[0], num_envs=2, max_steps=2, autoreset_mode=AutoresetMode.DISABLED, **SMALL)
    vector.reset(seed=0)
    for _ in range(2):
        vector.step(np.array([0, 0]))
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"\[0, 1\] have ended"):
        vector.step(np.array([0, 0]))
    _, info = vector.reset(options={"reset_mask": np.array([True, False])})
    assert info["steps"].tolist() == [0, 2]
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"\[1\] have ended"):
        vector.step(np.array([0, 0]))


def test_steps_before_a_reset_and_after_the_end_are_refused():
    env = make(max_steps=1).unwrapped
    with pytest.raises(gymnasium.error.ResetNeeded, match="before reset"):
        env.step(0)
    env.reset(seed=0)
    env.step(0)
    with pytest.raises(gymnasium.error.ResetNeeded, match="after the episode's end"):
        env.step(0)
    with pytest.raises(gymnasium.error.ResetNeeded, match="before reset"):
        gymnasium.make_vec(IDS[0], num_envs=2, **SMALL).step(np.array([0, 0]))


@pytest.mark.parametrize("name", IDS)
def test_observations_are_fresh_and_inside_the_space(name):
    env = make(name)
    seen = [env.reset(seed=0)[0]]
    kept = [seen[0].copy()]
    for _ in range(20):
        seen.append(env.step(env.action_space.sample())[0])
        kept.append(seen[-1].copy())
        assert env.observation_space.contains(seen[-1])
    assert all(np.array_equal(a, b) for a, b in zip(seen, kept, strict=True))
    assert len({frame.__array_interface__["data"][0] for frame in seen}) == len(seen)


@pytest.mark.parametrize("name", IDS)
def test_infos_say_what_there_is(name):
    env = make(name)
    _, info = env.reset(seed=0)
    task = env.unwrapped.batch.world.tasks[0]
    assert info["cell"].tolist() == list(task.start)
    assert info["steps"] == info["goals"] == 0
    if name != IDS[3]:
        assert info["target"] == task.commands[0]
        assert info["command"] == task.target_colours[task.commands[0]]
        assert info["distance"] == task.distances(tuple(task.target_cells[task.commands[0]]))[task.start]
        assert info["command_colour"].dtype == np.uint8
    else:
        assert info["life"] == 1.0
    assert {type(info["steps"]), type(info["goals"]), type(info["collision"])} == {int, bool}


def test_dictionaries_have_the_command_instead_of_the_bar():
    plain, env = make(), make(dictionary=True, depth=True)
    picture = plain.reset(seed=0)[0]
    seen, info = env.reset(seed=0)
    task = env.unwrapped.batch.world.tasks[0]
    assert seen["command"] == info["command"] == task.target_colours[info["target"]]
    assert seen["depth"].shape == (24, 32)
    assert (seen["image"] != picture).any(axis=(1, 2)).sum() == 2  # the rows of the bar
    assert make(IDS[3], dictionary=True).reset(seed=0)[0]["life"].tolist() == [1.0]


def test_channels_first_is_the_same_picture():
    assert np.array_equal(make().reset(seed=3)[0].transpose(2, 0, 1), make(channels_first=True).reset(seed=3)[0])


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("how", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"])
def test_copies_go_on_alike(name, how):
    env = make(name).unwrapped
    env.reset(seed=2)
    for _ in range(10):
        env.step(env.action_space.sample())
    other = how(env)
    for _ in range(10):
        action = env.action_space.sample()
        assert all(same(a, b) for a, b in zip(env.step(action), other.step(action), strict=True))
    assert all(same(a, b) for a, b in zip(env.reset(), other.reset(), strict=True))


def test_states_are_saved_and_restored():
    for env in (make().unwrapped, gymnasium.make_vec(IDS[0], num_envs=3, max_steps=20, **SMALL)):
        env.reset(seed=2)
        for _ in range(15):
            env.step(env.action_space.sample())
        state = env.get_state()
        actions = [env.action_space.sample() for _ in range(5)]
        first = [env.step(action) for action in actions]
        env.reset(seed=9)
        env.set_state(state)
        again = [env.step(action) for action in actions]
        fresh = make().unwrapped if isinstance(env, gymnasium.Env) else gymnasium.make_vec(IDS[0], num_envs=3, **SMALL)
        fresh.set_state(state)
        assert len(again) == len([fresh.step(action) for action in actions])
        for a, b in zip(first, again, strict=True):
            assert all(same(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"view": "4d"}, "view is '4d'"), ({"height": 0}, "height is 0"), ({"width": 1.5}, "width is 1.5"),
        ({"preset": "16-train"}, "preset is '16-train'"), ({"sizes": 8}, "sizes has 8"),
        ({"depth": True}, "depth is True"), ({"depht": True}, "depht is not a field of MazeTaskSpec"),
        ({"actions": "fly"}, "actions is 'fly'"), ({"max_steps": 0}, "max_steps is 0"),
        ({"channels_first": 1}, "channels_first is 1"), ({"radius": 0}, "radius is 0"),
        ({"textures": "/nowhere"}, "textures is '/nowhere'"),
    ],
)  # fmt: skip
def test_bad_settings_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        gymnasium.make_vec(IDS[0], num_envs=1, **settings).reset(seed=0)


def test_actions_outside_the_space_are_refused():
    env = make(IDS[1]).unwrapped
    env.reset(seed=0)
    for action in (np.array([0.0, 2.0]), np.array([np.nan, 0.0]), 3):
        with pytest.raises(ValueError, match="action"):
            env.step(action)


def test_common_wrappers_work(tmp_path):
    env = RecordEpisodeStatistics(make(max_steps=5))
    env.reset(seed=0)
    for _ in range(5):
        *_, info = env.step(0)
    assert info["episode"]["l"] == 5


@pytest.mark.parametrize("vector", [False, True])
def test_videos_are_recorded(vector, tmp_path):
    pytest.importorskip("moviepy")
    if vector:
        env = gymnasium.make_vec(IDS[0], num_envs=2, render_mode="rgb_array", max_steps=4, **SMALL)
        env = gymnasium.wrappers.vector.RecordVideo(
            env, str(tmp_path / "videos"), step_trigger=lambda step: step == 0, video_length=4
        )
    else:
        env = gymnasium.wrappers.RecordVideo(make(render_mode="rgb_array", max_steps=4), str(tmp_path / "videos"))
    env.reset(seed=0)
    for _ in range(6):
        env.step(env.action_space.sample())
        if not vector:
            env.reset()
    env.close()
    assert list((tmp_path / "videos").glob("*.mp4"))


def test_environments_do_not_disturb_each_other():
    one = make()
    first = one.reset(seed=0)[0]
    other = make(preset="15-eval", sizes=(35,))
    other.reset(seed=0)
    other.close()
    assert np.array_equal(one.reset(seed=0)[0], first)


MEGABYTES = """
import ctypes, gc
import gymnasium, neophyte

def megabytes():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what is free goes back, or it would hide what is taken anew
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, trims with glibc")
def test_memory_does_not_grow():
    code = """
def use(resets, environments):
    env = gymnasium.make("neophyte/MazeWorld-v0", sizes=(15, 25, 35))
    for _ in range(resets):
        env.reset()
    for seed in range(environments):
        other = gymnasium.make("neophyte/MazeWorld-v0")
        other.reset(seed=seed)
        other.close()

use(100, 10)
before = megabytes()
use(500, 50)
assert megabytes() - before < 5.0, megabytes() - before
"""
    subprocess.run([sys.executable, "-c", MEGABYTES + code], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, trims with glibc")
@pytest.mark.parametrize(("size", "most"), [(15, 50e-3), (35, 50e-3)])
def test_a_world_of_a_batch_takes_little_memory(size, most):
    code = f"""
def begin(num_envs):
    envs = gymnasium.make_vec("neophyte/MazeWorld-v0", num_envs=num_envs, sizes=({size},), height=16, width=16)
    envs.reset(seed=0)
    return envs

first = begin(100)
before = megabytes()
second = begin(1000)
assert (megabytes() - before) / 1000 < {most} + 16 * 16 * 3 / 1e6, (megabytes() - before) / 1000
"""
    subprocess.run([sys.executable, "-c", MEGABYTES + code], check=True)


def test_a_probe_for_gymnasium_does_not_use_the_registration_up():
    code = """
import importlib.util, pkgutil
import neophyte
assert importlib.util.find_spec("gymnasium") is not None
import gymnasium
assert "neophyte/MazeWorld-v0" in gymnasium.registry
assert pkgutil.get_data("gymnasium", "__init__.py")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_only_masked_environments_are_seeded():
    vector = gymnasium.make_vec(IDS[0], num_envs=2, **SMALL)
    with pytest.raises(ValueError, match="never began"):
        vector.reset(options={"reset_mask": np.array([True, False])})
    vector.reset(seed=1)
    _, info = vector.reset(seed=2, options={"reset_mask": np.array([True, False])})
    assert [name.partition("/")[2] for name in info["task"]] == ["train/2/0", f"train/1/{LANE}"]
    _, info = vector.reset()
    assert [name.partition("/")[2] for name in info["task"]] == ["train/2/1", f"train/1/{LANE + 1}"]


def test_a_missing_seed_of_a_list_is_drawn():
    names = [
        gymnasium.make_vec(IDS[0], num_envs=2, **SMALL).reset(seed=[1, None])[1]["task"].tolist() for _ in range(2)
    ]
    assert names[0][0] == names[1][0]
    assert names[0][1] != names[1][1]


@pytest.mark.parametrize(
    ("seed", "options", "said"),
    [
        (1.5, None, "seed is 1.5"), (-1, None, "seed is -1"), ([1], None, "seed has 1 entries"),
        ([1, -2], None, "seed is -2"), (0, {"index": [1]}, "index has 1 entries; allowed: one, or 2"),
        (0, {"index": [1, 2, 3]}, "index has 3 entries"), (0, {"reset_mask": [1, 0]}, "reset_mask has shape"),
    ],
)  # fmt: skip
def test_bad_seeds_and_options_are_refused(seed, options, said):
    vector = gymnasium.make_vec(IDS[0], num_envs=2, **SMALL)
    with pytest.raises(ValueError, match=said):
        vector.reset(seed=seed, options=options)


def test_options_for_each_environment():
    vector = gymnasium.make_vec(IDS[0], num_envs=2, **SMALL)
    _, info = vector.reset(seed=0, options={"index": np.array([5, 7])})
    assert [name.rpartition("/")[2] for name in info["task"]] == ["5", "7"]
    own = mazes("25-eval")[0]
    _, info = vector.reset(options={"task": own})
    assert info["task"].tolist() == [own.name] * 2


def test_the_map_is_what_a_2d_environment_renders():
    env = make(IDS[2], render_mode="rgb_array")
    seen, _ = env.reset(seed=0)
    frame = env.render()
    assert frame.shape == (255, 255, 3)
    assert np.array_equal(frame[42::85, 42::85], seen)


def test_windows_of_several_environments(monkeypatch):
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    one, other = make(render_mode="human"), make(IDS[2], render_mode="human")
    for env in (one, other):
        env.reset(seed=0)
        env.step(1)
    one.close()
    other.step(1)
    other.close()


def test_ids_are_registered_without_numba():
    code = """
        import sys
        import {first}
        import {second}
        assert "numba" not in sys.modules
        assert "gymnasium" in sys.modules
        import gymnasium
        assert [name for name in gymnasium.registry if name.startswith("neophyte/")] == {ids}
    """
    for first, second in (("neophyte", "gymnasium"), ("gymnasium", "neophyte")):
        lines = code.format(first=first, second=second, ids=IDS).replace("\n        ", "\n")
        subprocess.run([sys.executable, "-c", lines], check=True)


def test_the_package_needs_no_gymnasium():
    code = "import sys; sys.modules['gymnasium'] = None; import neophyte; neophyte.mazeworld.World(1)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_frame_needs_no_display():
    code = """
import os
os.environ.pop("DISPLAY", None)
import gymnasium, neophyte
env = gymnasium.make("neophyte/MazeWorld-v0", render_mode="rgb_array")
env.reset(seed=0)
assert env.render().shape == (256, 256, 3)
import sys
assert "pygame" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
