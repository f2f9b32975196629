"""The registry of tasks."""

import pytest

from neophyte.core import registry
from neophyte.core.registry import Task


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch):
    monkeypatch.setattr(registry, "_tasks", {})
    monkeypatch.setattr(registry, "_families", {})


def task(name):
    return Task(name, "a summary", "train", load=lambda split, seed: (name, split, seed), change=dict)


def test_a_task_is_found_by_name():
    tasks = [registry.register(task(name)) for name in ("maze/small@1", "language/big@1", "language/a@1")]
    assert registry.get("maze/small@1") is tasks[0]
    assert [found.name for found in registry.tasks()] == ["language/a@1", "language/big@1", "maze/small@1"]
    assert [found.name for found in registry.tasks("maze")] == ["maze/small@1"]
    assert registry.tasks("maz") == []
    assert tasks[0].family == "maze"


def test_without_a_version_the_newest_is_found():
    for version in (2, 10, 9):
        registry.register(task(f"maze/small@{version}"))
    assert registry.get("maze/small").name == "maze/small@10"
    assert registry.get("maze/small@2").name == "maze/small@2"


@pytest.mark.parametrize(
    "name", ["small", "maze/small", "maze/@1", "/small@1", "maze/small@", "maze/small@one", "@1", ""]
)
def test_a_bad_name_is_refused(name):
    with pytest.raises(ValueError, match="allowed: family/name@version"):
        registry.register(task(name))


def test_a_taken_name_is_refused():
    registry.register(task("maze/small@1"))
    with pytest.raises(ValueError, match="'maze/small@1', which is registered already"):
        registry.register(task("maze/small@1"))


@pytest.mark.parametrize("name", ["maze/smal@1", "maze/smal", "maze/small@2"])
def test_an_unknown_name_is_refused_with_the_nearest(name):
    registry.register(task("maze/small@1"))
    with pytest.raises(ValueError, match=rf"task is '{name}'; allowed: maze/small@1 \(did you mean maze/small@1\?\)"):
        registry.get(name)


def test_a_data_set_comes_from_the_tasks_own_split_and_seed_zero():
    found = task("maze/small@1")
    assert found.dataset() == ("maze/small@1", "train", 0)
    assert found.dataset("eval", 5) == ("maze/small@1", "eval", 5)


def test_only_the_families_asked_for_are_imported(monkeypatch):
    imported = []
    monkeypatch.setattr(registry.importlib, "import_module", imported.append)
    registry.register_family("maze", "package.maze")
    registry.register_family("language", "package.language")
    registry.tasks("maze")
    assert imported == ["package.maze"]
    registry.tasks()
    assert imported == ["package.maze", "package.maze", "package.language"]


def test_the_package_knows_its_tasks(monkeypatch):
    monkeypatch.undo()
    names = {found.name for found in registry.tasks("metalang")}
    assert names >= {f"metalang/{name}@1" for name in ("train", "warmup", "eval", "tiny-train", "tiny-eval")}
