"""Generation probes: does a model learn a vocabulary or arithmetic in context, and correct its errors (gpicl, Fig. 4).

A context is a list of items joined by ";", 15 % of them corrupted, its characters mapped onto the tokens by a random
injection. The model continues it; each complete item that it writes is right or wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from neophyte.core.addressing import Space, Stream
from neophyte.core.spec import check_choice, check_integer, check_real

SEPARATOR = ";"
UNKNOWN = "?"  # a generated token that no character was mapped to

WORDS = (
    "apple", "bird", "black", "book", "bread", "brother", "cat", "chair", "cloud", "dog", "door", "earth", "father",
    "fire", "fish", "flower", "friend", "green", "hand", "horse", "house", "light", "milk", "moon", "mother", "night",
    "rain", "river", "school", "sister", "snow", "stone", "sun", "table", "tree", "water", "white", "wind", "winter",
    "yellow",
)  # fmt: skip
EQUATIONS = tuple(f"{a}+{b}={a + b}" for a in range(5) for b in range(5)) + tuple(
    f"{a}-{b}={a - b}" for a in range(5) for b in range(5)
)
ITEMS = {"vocabulary": WORDS, "arithmetic": EQUATIONS}
ALPHABETS = {"vocabulary": "abcdefghijklmnopqrstuvwxyz;", "arithmetic": "0123456789+-=;"}


def corrupt(item: str, task: str, stream: Stream) -> str:
    """Return the item with one error: another letter in a word, another digit in an equation's result."""
    alphabet = "abcdefghijklmnopqrstuvwxyz" if task == "vocabulary" else "0123456789"
    first = 0 if task == "vocabulary" else item.index("=") + 1
    places = [place for place in range(first, len(item)) if item[place] in alphabet]
    place = places[stream.integers(len(places), 1)[0]]
    others = [character for character in alphabet if character != item[place]]
    return item[:place] + others[stream.integers(len(others), 1)[0]] + item[place + 1 :]


@dataclass(frozen=True)
class Probe:
    """A context for generation.

    Attributes:
        task: "vocabulary" or "arithmetic".
        items: The items as shown, errors among them.
        wrong: For each of them, whether it was corrupted.
        tokens: int64 (token of each character of `ALPHABETS[task]`,).
    """

    task: str
    items: list[str]
    wrong: list[bool]
    tokens: np.ndarray

    @property
    def text(self) -> str:
        """The context as text; it ends with a separator."""
        return "".join(item + SEPARATOR for item in self.items)

    def encode(self) -> np.ndarray:
        """Return the context as int64 tokens (time,)."""
        codes = {character: self.tokens[i] for i, character in enumerate(ALPHABETS[self.task])}
        return np.array([codes[character] for character in self.text], dtype=np.int64)

    def decode(self, tokens: np.ndarray) -> str:
        """Return generated tokens (time,) as text."""
        characters = {int(token): ALPHABETS[self.task][i] for i, token in enumerate(self.tokens)}
        return "".join(characters.get(int(token), UNKNOWN) for token in tokens)


def make_probe(task: str, num_items: int, index: int, *, error_rate: float = 0.15, vocab_size: int = 32) -> Probe:
    """Draw probe `index`: items at random with replacement, each corrupted with probability `error_rate`.

    A shorter probe is the first part of a longer one with the same index.
    """
    check_choice("task", task, ITEMS)
    check_integer("num_items", num_items, 1)
    check_integer("vocab_size", vocab_size, len(ALPHABETS[task]), 65_536)
    check_real("error_rate", error_rate, 0.0, 1.0)
    space = Space(f"generation-probe@1:{task}", "eval")
    picks = space.stream("items", index).integers(len(ITEMS[task]), num_items)
    errors = space.stream("errors", index)
    wrong = (space.stream("corrupted", index).uniform(num_items) < error_rate).tolist()
    items = [ITEMS[task][pick] for pick in picks]
    shown = [corrupt(item, task, errors) if bad else item for item, bad in zip(items, wrong, strict=True)]
    tokens = space.stream("injection", index).permutation(vocab_size)[: len(ALPHABETS[task])]
    return Probe(task, shown, wrong, tokens)


def judge(generated: str, probe: Probe) -> dict[str, float]:
    """Score generated text by its complete items.

    Returns:
        items: how many; error_rate: share of them that is no true item; coverage: share of the true items shown in the
        context, uncorrupted, that occur among them; copied_error_rate: share that repeats an error of the context;
        distinct: share of different ones among them, low where the model writes one item over and over.
    """
    written = generated.split(SEPARATOR)[:-1]
    truth = set(ITEMS[probe.task])
    shown = {item for item, wrong in zip(probe.items, probe.wrong, strict=True) if not wrong}
    errors = {item for item, wrong in zip(probe.items, probe.wrong, strict=True) if wrong} - truth
    count = max(1, len(written))
    return {
        "items": float(len(written)),
        "error_rate": sum(item not in truth for item in written) / count if written else 1.0,
        "coverage": len(shown & set(written)) / max(1, len(shown)),
        "copied_error_rate": sum(item in errors for item in written) / count,
        "distinct": len(set(written)) / count,
    }
