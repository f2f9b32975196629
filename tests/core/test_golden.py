"""Promised bytes: the first samples of every registered task@version never change.

To promise a new task or version, run `python -m tests.core.test_golden` in the repository's root: it adds what is
missing to tests/golden/fingerprints.json and changes nothing that is there.
"""

from pathlib import Path

import pytest

from neophyte.core import registry
from neophyte.core.contract import fingerprint
from neophyte.core.files import read_json, write_json

GOLDEN = Path(__file__).parents[1] / "golden" / "fingerprints.json"


@pytest.mark.parametrize("task", registry.tasks(), ids=lambda task: task.name)
def test_the_bytes_of_a_version_do_not_change(task):
    promised = read_json(GOLDEN)
    assert task.name in promised, (
        f"{task.name} has no promised bytes yet; add them: python -m tests.core.test_golden (in the repository's root)"
    )
    assert fingerprint(task) == promised[task.name], (
        f"{task.name}: bytes changed without a new version. Undo the change, or raise the version of the task and its "
        "address (VERSION in its spec.py), and then add it: python -m tests.core.test_golden (in the repository's root)"
    )


def test_no_promised_task_is_gone():
    gone = read_json(GOLDEN).keys() - {task.name for task in registry.tasks()}
    assert not gone, f"promised, but not registered any more: {sorted(gone)}"


def add_missing() -> None:
    """Add the fingerprints of tasks that have none."""
    promised = read_json(GOLDEN) if GOLDEN.exists() else {}
    fresh = {task.name: fingerprint(task) for task in registry.tasks() if task.name not in promised}
    write_json(GOLDEN, {**promised, **fresh})


if __name__ == "__main__":
    add_missing()
