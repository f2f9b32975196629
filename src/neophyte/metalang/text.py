"""Natural text as an unknown language: its characters under a random injection into the tokens (paper, section 2.2)."""

from __future__ import annotations

import copy
import re
import unicodedata
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from neophyte.core.addressing import Space
from neophyte.core.spec import check_integer
from neophyte.metalang.language import token_dtype

SYMBOLS = "abcdefghijklmnopqrstuvwxyz .,;'\n"
NOVEL = "persuasion"
TEXT = "text"  # the name of natural text among the groups of sequences, beside the orders

_TASK = "natural-text@1"
_DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_FOLDS = str.maketrans(
    {**dict.fromkeys("‘’`", "'"), **dict.fromkeys("?!", "."), ":": ";", **dict.fromkeys(_DASHES + "\t/", " ")}
)


def fold(text: str) -> str:
    """Reduce text to the 32 symbols: a-z, space, full stop, comma, semicolon, apostrophe and newline.

    Letters lose their accents and case; "?" and "!" become ".", ":" becomes ";", dashes become spaces, and all other
    characters, digits and quotation marks among them, are dropped. Runs of spaces, and of newlines, become one.

    Example:
        >>> fold("Why, Émile - 12 times!")
        'why, emile times.'
    """
    text = unicodedata.normalize("NFKD", text.translate(_FOLDS)).translate(_FOLDS).lower()
    text = "".join(character for character in text.replace("\r\n", "\n").replace("\r", "\n") if character in SYMBOLS)
    text = re.sub(r" +", " ", text)
    return re.sub(r" ?\n[ \n]*", "\n", text)


def read_text(source: str | Path) -> str:
    """Return the raw text of a source.

    Args:
        source: "persuasion" (the novel inside the package), a .txt file, or a folder whose .txt files are joined in
            the order of their names.

    Raises:
        ValueError: The source is missing, empty or not UTF-8; the message names the file.
    """
    if str(source) == NOVEL:
        return resources.files("neophyte.metalang").joinpath("data", "persuasion.txt").read_text(encoding="utf-8")
    path = Path(source)
    if not path.exists():
        raise ValueError(f"text is {str(source)!r}; allowed: {NOVEL!r}, a .txt file or a folder of .txt files")
    files = sorted(path.rglob("*.txt")) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"{path}: holds no .txt file")
    return "\n".join(_read_file(file) for file in files)


def _read_file(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    if not text.strip():
        raise ValueError(f"{path}: is empty")
    return text


class TextCorpus:
    """Sequences of natural text, each under its own random injection of the 32 symbols into the tokens.

    Sequence i holds the characters i T, ..., (i + 1) T - 1 of the folded text.

    Args:
        source: As in `read_text`.
        context_length: Tokens T in a sequence.
        vocab_size: Number of tokens, at least 32.
        seed: Seed of the injections.

    Raises:
        ValueError: The text is shorter than one sequence, or the vocabulary smaller than the symbols.
    """

    def __init__(
        self, source: str | Path = NOVEL, *, context_length: int = 4096, vocab_size: int = len(SYMBOLS), seed: int = 0
    ) -> None:
        check_integer("context_length", context_length, 1)
        check_integer("vocab_size", vocab_size, len(SYMBOLS), 65_536)
        folded = fold(read_text(source))
        if len(folded) < context_length:
            raise ValueError(
                f"{source}: has {len(folded)} characters; allowed: at least context_length = {context_length}"
            )
        self.context_length = context_length
        self.vocab_size = vocab_size
        self._space = Space(_TASK, "text", seed)
        codes = {character: code for code, character in enumerate(SYMBOLS)}
        self._codes = np.array([codes[character] for character in folded], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._codes) // self.context_length

    def __getitem__(self, index: int) -> np.ndarray:
        """Return the tokens of one sequence, (time,)."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"index is {index}; allowed: [0, {len(self)})")
        index %= len(self)
        start = index * self.context_length
        return self.injection(index)[self._codes[start : start + self.context_length]]

    def batch(self, indices: Any) -> np.ndarray:
        """Return the tokens of the sequences at `indices`, (batch, time)."""
        return np.stack([self[int(index)] for index in indices])

    def first(self, count: int) -> TextCorpus:
        """Return a corpus of the first `count` of these sequences, or of all if there are fewer."""
        check_integer("count", count, 1)
        part = copy.copy(self)
        part._codes = self._codes[: count * self.context_length]
        return part

    def injection(self, index: int) -> np.ndarray:
        """Return the token of each symbol in sequence `index`, (symbol,)."""
        return random_injection(self._space, index, self.vocab_size)


def random_injection(space: Space, index: int, vocab_size: int) -> np.ndarray:
    """Return a uniform random injection of the 32 symbols into the tokens, (symbol,)."""
    permutation = space.stream("injection", index).permutation(vocab_size)
    return permutation[: len(SYMBOLS)].astype(token_dtype(vocab_size))
