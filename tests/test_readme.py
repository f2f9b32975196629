"""The examples of README.md and docs/*.md run: Python blocks, and the lines of shell blocks that start with `neophyte`.

The blocks of a file run in order, in one empty folder; its Python blocks share one namespace. A comment on the line
before a block changes that: `<!-- test: skip -->` leaves it out, `<!-- test: file NAME -->` writes it to a file.
"""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))] if path.exists()]
DEADLINE_SECONDS = 600
SHELLS = ("console", "bash", "sh", "shell")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the line where the text begins, and what its comment says."""

    language: str
    text: str
    line: int
    directive: str = ""


def blocks_of(page):
    """Return the fenced blocks of a Markdown text, in order."""
    found, directive, fence, lines = [], "", None, []
    for number, line in enumerate(page.splitlines(), 1):
        if fence is not None:
            if line.strip() == "```":
                found.append(Block(fence[0], "\n".join(lines) + "\n", fence[1] + 1, directive))
                directive, fence, lines = "", None, []
            else:
                lines.append(line)
        elif match := re.fullmatch(r"\s*```(\w*).*", line):
            fence = (match[1], number)
        elif match := re.fullmatch(r"\s*<!-- test: (.*?) -->\s*", line):
            directive = match[1]
        elif line.strip():
            directive = ""
    assert fence is None, f"the block of line {fence[1]} has no end" if fence else ""
    return found


def commands_of(text):
    """Return the commands of a shell block that start with `neophyte`, prompts removed and continued lines joined."""
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    commands = [line.strip().removeprefix("$ ") for line in lines]
    return [command for command in commands if command.split()[:1] == ["neophyte"]]


def run_page(page, folder, name="page"):
    """Run the blocks of a Markdown text in a folder.

    Raises:
        AssertionError: One fails; the message names its line.
    """
    # A script like the installed one: it does not have the current folder on its module path.
    bin_folder = folder / ".bin"
    bin_folder.mkdir()
    (bin_folder / "start.py").write_text("from neophyte.cli import main\n\nmain()\n")
    start = shlex.join([sys.executable, str(bin_folder / "start.py")])
    script = bin_folder / "neophyte"
    script.write_text(f'#!/bin/sh\nexec {start} "$@"\n')
    script.chmod(0o755)
    source = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
    path = os.pathsep.join([str(bin_folder), os.environ.get("PATH", "")])
    environment = {**os.environ, "PYTHONPATH": source, "PATH": path, "OMP_NUM_THREADS": "1"}
    namespace = {"__name__": "__readme__"}
    for block in blocks_of(page):
        where = f"{name}, line {block.line}"
        if block.directive == "skip":
            continue
        if block.directive.startswith("file "):
            (folder / block.directive.removeprefix("file ")).write_text(block.text)
        elif block.language == "python":
            try:
                exec(compile("\n" * (block.line - 1) + block.text, name, "exec"), namespace)
            except Exception as error:
                raise AssertionError(f"{where}: {type(error).__name__}: {error}\n{block.text}") from error
        elif block.language in SHELLS:
            for command in commands_of(block.text):
                done = subprocess.run(
                    ["/bin/sh", "-c", command],
                    cwd=folder,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=DEADLINE_SECONDS,
                    check=False,
                )
                assert done.returncode == 0, f"{where}: {command}\n{done.stdout}{done.stderr}"


@pytest.mark.skipif(os.name == "nt", reason="runs a shell")
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_examples_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    run_page(path.read_text(encoding="utf-8"), tmp_path, path.name)


PAGE = """
Text, and `code`.

```python
numbers = [1, 2]
```

```python
numbers.append(3)  # the namespace is shared
import pathlib; pathlib.Path("made.txt").write_text(str(numbers))
```

<!-- test: skip -->
```python
raise RuntimeError
```

<!-- test: file helper.py -->

```python
VALUE = 5
```

```python
import helper; assert helper.VALUE == 5
```

```text
neophyte no-such-command
```

```console
$ cat made.txt
[1, 2, 3]
$ neophyte list \\
    --json > list.json
```
"""


def test_pages_are_run_in_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    run_page(PAGE, tmp_path)
    assert (tmp_path / "made.txt").read_text() == "[1, 2, 3]"
    assert (tmp_path / "list.json").read_text().startswith("{")


def test_commands_are_found():
    text = "make demo\n$ neophyte list\nneophyte run a \\\n    --scale b  # why\nneophytes\n  neophyte list\n"
    assert commands_of(text) == ["neophyte list", "neophyte run a --scale b  # why", "neophyte list"]


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("```python\nx = 1\nassert x == 2\n```", "page, line 4: AssertionError"),
        ("```python\nno_such_name\n```", "page, line 4: NameError"),
        ("```python\nthis is no python\n```", "page, line 4: SyntaxError"),
        ("```bash\nneophyte sample metalang --order 0\n```", "page, line 4: neophyte sample metalang --order 0"),
    ],
)
def test_a_block_that_fails_is_named(block, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match=message):
        run_page(f"# Title\n\n{block}\n", tmp_path)


def test_a_block_without_an_end_is_found():
    with pytest.raises(AssertionError, match="the block of line 2 has no end"):
        blocks_of("text\n```python\nx = 1\n")


def test_a_page_without_blocks_passes(tmp_path):
    run_page("# Nothing to see\n", tmp_path)
