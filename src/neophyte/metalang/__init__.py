"""Meta-Language: random neural n-gram languages with an exact oracle (General Purpose In-Context Learning, sec. 2)."""

from neophyte.metalang.dataset import Batch, Corpus, corpus
from neophyte.metalang.language import Language
from neophyte.metalang.references import score_controls
from neophyte.metalang.spec import PRESETS, VERSION, CorpusSpec, LanguageSpec
from neophyte.metalang.text import TextCorpus

__all__ = [
    "PRESETS",
    "VERSION",
    "Batch",
    "Corpus",
    "CorpusSpec",
    "Language",
    "LanguageSpec",
    "TextCorpus",
    "corpus",
    "score_controls",
]
