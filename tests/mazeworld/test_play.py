import numpy as np
import pytest

from neophyte.mazeworld import mazes
from neophyte.mazeworld.motion_kernels import GOALS
from neophyte.mazeworld.play import PANEL, Game, play

pygame = pytest.importorskip("pygame")


@pytest.fixture(autouse=True)
def virtual_display(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")


def press(*keys):
    for key in keys:
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=key))


def keys_to_the_target(game):
    """The keys that walk to the commanded target: turn towards the next cell of a shortest way, then ahead."""
    world = game.world
    row, column, quarter = (int(part) for part in world.integers[0, :3])
    field = world.distances[0]
    ways = ((0, 1), (1, 0), (0, -1), (-1, 0))
    keys = []
    while field[row, column]:
        wanted = next(q for q, (down, right) in enumerate(ways)
                      if field[row + down, column + right] == field[row, column] - 1)  # fmt: skip
        while quarter != wanted:
            left = (wanted - quarter) % 4 == 3
            keys.append(pygame.K_LEFT if left else pygame.K_RIGHT)
            quarter = (quarter + (3 if left else 1)) % 4
        keys.append(pygame.K_UP)
        row, column = row + ways[wanted][0], column + ways[wanted][1]
    return keys


def test_keys_walk_to_the_commanded_target():
    pygame.display.init()
    game = Game(mazes("15-train")[4])
    keys = keys_to_the_target(game)
    press(*keys, pygame.K_ESCAPE)
    played = play(game, fps=1000)
    assert played.goals == 1
    assert played.steps == len(keys)
    assert played.reward == pytest.approx(game.task.goal_reward - 0.01 * len(keys))


def test_the_game_ends_with_the_episode():
    pygame.display.init()
    game = Game(mazes("15-train")[4], max_steps=3)
    press(*[pygame.K_LEFT] * 9)
    assert play(game, fps=1000).steps == 3
    assert game.ended


def test_closing_the_window_ends_it():
    pygame.display.init()
    pygame.event.post(pygame.event.Event(pygame.QUIT))
    assert play(Game(mazes("15-train")[4]), fps=1000).steps == 0


def test_frames_show_view_map_and_memory():
    game = Game(mazes("15-train")[4])
    before = game.frame()
    assert before.shape == (PANEL, 3 * PANEL, 3)
    known = (before[:, 2 * PANEL :] == before[:, PANEL : 2 * PANEL]).all(axis=-1).mean()
    for action in (1, 1, 1, 1):
        game.act(action)
    after = game.frame()
    assert (after[:, 2 * PANEL :] == after[:, PANEL : 2 * PANEL]).all(axis=-1).mean() > known
    assert game.world.integers[0, GOALS] == 0


@pytest.mark.parametrize("size", [7, 35])
@pytest.mark.parametrize("actions", ["turn", "compass", "continuous"])
def test_every_size_and_way_can_be_played(size, actions):
    game = Game(mazes(sizes=size)[0], actions=actions, mode="survival")
    game.act((0.5, 1.0) if actions == "continuous" else 4)
    assert game.frame().shape == (PANEL, 3 * PANEL, 3)


def test_what_is_seen_is_what_rays_enter():
    game = Game(mazes("15-train")[4])
    seen = game._seen[0] > 0
    task, (x, y, heading) = game.task, game.world.reals[0, :3]
    expected = np.zeros_like(seen)
    expected[int(y / 2), int(x / 2)] = True
    for ray in range(128):
        slope = (2 * (ray + 0.5) / 128 - 1) * np.tan(0.3 * np.pi)
        direction = np.array([np.cos(heading) - slope * np.sin(heading), np.sin(heading) + slope * np.cos(heading)])
        direction /= np.linalg.norm(direction)
        with np.errstate(divide="ignore"):
            crossings = np.concatenate([(2.0 * np.arange(16) - start) / part
                                        for start, part in zip((x, y), direction, strict=True)])  # fmt: skip
        edges = np.concatenate([[0.0], np.sort(crossings[(crossings > 0) & (crossings < 12.0)]), [12.0]])
        for t in (edges[1:] + edges[:-1]) / 2:
            cx, cy = int((x + t * direction[0]) / 2), int((y + t * direction[1]) / 2)
            expected[cy, cx] = True
            if task.walls[cy, cx]:
                break
    assert np.array_equal(seen, expected)


def hold(monkeypatch, frames, *keys):
    """Hold keys down for so many frames, then press Escape."""
    left = [frames]

    class Pressed(dict):
        def __missing__(self, key):
            return False

    def pressed():
        left[0] -= 1
        if left[0] < 0:
            press(pygame.K_ESCAPE)
            return Pressed()
        return Pressed.fromkeys(keys, True)

    monkeypatch.setattr(pygame.key, "get_pressed", pressed)


def test_held_keys_steer(monkeypatch):
    pygame.display.init()
    game = Game(mazes(sizes=7, wall_density=0.0)[0], actions="continuous")
    game.world.place(0, (7.0, 7.0, 0.0))
    hold(monkeypatch, 30, pygame.K_UP)
    played = play(game, fps=1000)
    assert 25 <= played.steps <= 30
    assert game.world.reals[0, 0] == pytest.approx(7.0 + played.steps / 30)  # a metre a second
    game.world.place(0, (7.0, 7.0, 0.0))
    hold(monkeypatch, 15, pygame.K_d)
    before = game.played.steps
    steps = play(game, fps=1000).steps - before
    assert game.world.reals[0, 2] == pytest.approx(0.5 * np.pi * steps / 30)
    game.world.place(0, (7.0, 7.0, 0.0))
    hold(monkeypatch, 9, pygame.K_LEFT, pygame.K_RIGHT)  # cancel out
    play(game, fps=1000)
    assert game.world.reals[0, :3].tolist() == [7.0, 7.0, 0.0]


def test_held_keys_act_again_after_a_while(monkeypatch):
    pygame.display.init()
    game = Game(mazes("15-train")[4])
    hold(monkeypatch, 25, pygame.K_LEFT)
    assert 10 <= play(game, fps=30).steps <= 15
