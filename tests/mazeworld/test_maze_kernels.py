import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage, stats

from neophyte.core.addressing import Space
from neophyte.mazeworld import maze_kernels
from neophyte.mazeworld.spec import MazeTaskSpec, tree_density
from neophyte.mazeworld.task import draw_walls

CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]])


def walls_of(size, index, seed=0, density=None, **fields):
    spec = MazeTaskSpec(sizes=(size,), **fields)
    density = spec.density_range(size)[0] if density is None else density
    return draw_walls(Space("mazes@1", "test", seed).stream("walls", index), size, spec, density)


def inner_share(walls):
    return walls[1:-1, 1:-1].mean()


def edges_between(walls):
    """How many pairs of neighbouring cells are open."""
    free = walls == 0
    return int((free[1:] & free[:-1]).sum() + (free[:, 1:] & free[:, :-1]).sum())


@given(
    st.sampled_from(range(7, 41, 2)),
    st.integers(0, 2**40),
    st.sampled_from(["tree", "rooms"]),
    st.booleans(),
    st.floats(0, 1),
)
def test_mazes_are_closed_connected_and_as_dense_as_asked(size, index, style, loops, share):
    density = share * tree_density(size)
    walls = walls_of(size, index, style=style, loops=loops, density=density)
    assert set(np.unique(walls)) == {0, 1}
    assert np.concatenate([walls[0], walls[-1], walls[:, 0], walls[:, -1]]).all()
    assert not walls[1::2, 1::2].any()
    assert ndimage.label(walls == 0, CROSS)[1] == 1
    inner = (size - 2) ** 2
    if style == "tree" and loops:
        assert (walls[1:-1, 1:-1].sum()) == int(density * inner + 1e-9)
    if style == "tree" and not loops:
        free = int((walls == 0).sum())
        assert edges_between(walls) == free - 1  # connected without a loop
        assert inner_share(walls) == pytest.approx(tree_density(size), abs=1e-12)
    if loops:
        assert inner_share(walls) <= density + 1e-9


@pytest.mark.parametrize(("size", "density"), [(7, 0.32), (9, 0.367), (11, 0.395), (15, 0.426), (35, 0.470)])
def test_trees_have_the_density_of_the_spec(size, density):
    assert tree_density(size) == pytest.approx(density, abs=5e-4)


def test_a_thousand_mazes_of_the_default_have_forty_percent_walls():
    shares = [inner_share(walls_of(15, index)) for index in range(1000)]
    assert max(shares) == min(shares) == 67 / 169  # the most that is at most 0.40


def test_loops_need_no_pillar_of_their_own():
    # Any inner wall next to two open cells may go, those between four corners too, down to none.
    assert inner_share(walls_of(15, 0, density=0.0)) == 0.0


def test_every_inner_edge_is_as_likely_open_as_its_mirror_image():
    # False-alarm rate 1e-6: 4,000 trees, and 84 edges of 7 x 7 folded by the maze's eight symmetries.
    counts = sum((1 - walls_of(7, index, loops=False)).astype(int) for index in range(4000))
    for image in (counts.T, counts[::-1], counts[:, ::-1]):
        edges = [(r, c) for r in range(1, 6) for c in range(1, 6) if (r + c) % 2]
        for r, c in edges:
            pair = np.array([counts[r, c], image[r, c]])
            if pair.sum() and pair[0] != pair[1]:
                # Both are binomial; each maze counts once for either, so that they are at most as variable as this.
                z = (pair[0] - pair[1]) / np.sqrt(2 * 4000 * 0.25)
                assert 2 * stats.norm.sf(abs(z)) > 1e-6 / (3 * len(edges))


def test_rooms_are_there_and_apart():
    walls = np.ones((35, 35), dtype=np.uint8)
    key = Space("rooms@1", "test").keys("walls", np.array([0]))[0]
    assert maze_kernels.carve_rooms(key, 0, walls) > 0
    labels, count = ndimage.label(walls == 0, CROSS)
    assert count > 10
    for part in ndimage.find_objects(labels):
        height, width = (axis.stop - axis.start for axis in part)
        assert 2 <= height <= 4
        assert 2 <= width <= 4
        assert not walls[part].any()
    assert ndimage.label(walls == 0, np.ones((3, 3)))[1] == count  # not even corners touch


def test_equal_streams_give_equal_mazes_and_others_do_not():
    assert np.array_equal(walls_of(15, 3), walls_of(15, 3))
    assert len({walls_of(15, index).tobytes() for index in range(300)}) == 300


def slow_distances(walls, cell):
    found = np.full(walls.shape, -1)
    found[cell] = 0
    for step in range(walls.size):
        reached = ndimage.binary_dilation(found == step, CROSS) & (walls == 0) & (found < 0)
        if not reached.any():
            return found
        found[reached] = step + 1
    return found


@given(st.sampled_from([7, 9, 15, 21]), st.integers(0, 2**40), st.data())
def test_distances_are_those_of_a_flood(size, index, data):
    walls = walls_of(size, index, style=data.draw(st.sampled_from(["tree", "rooms"])))
    free = np.argwhere(walls == 0)
    cell = tuple(free[data.draw(st.integers(0, len(free) - 1))])
    found = np.full((size + 2, size + 2), 77, dtype=np.int16)
    padded = np.ones((size + 2, size + 2), dtype=np.uint8)
    padded[:size, :size] = walls
    maze_kernels.fill_distances(padded, size, *cell, found, np.empty(size * size, dtype=np.int32))
    np.testing.assert_array_equal(found[:size, :size], slow_distances(walls, cell))
    assert (found[size:] == 77).all()


def test_chosen_items_are_uniform_and_different():
    counts = np.zeros((6, 6), dtype=int)
    for index in range(6000):
        items = np.arange(6)
        maze_kernels.choose(Space("choose@1", "test").keys("x", np.array([index]))[0], 0, items, 2)
        assert sorted(items) == list(range(6))
        counts[items[0], items[1]] += 1
    assert not counts.diagonal().any()
    assert stats.chisquare(counts[~np.eye(6, dtype=bool)]).pvalue > 1e-6  # the false-alarm rate
