"""Natural text: the fold, the sources, the injections."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from neophyte.core.addressing import Space
from neophyte.metalang.text import SYMBOLS, TextCorpus, fold, random_injection, read_text

ALARM = 1e-6  # chance of a false alarm of each statistical test, had its fixed seed been drawn at random
TEXT = "The quick brown fox; it jumps, over the lazy dog's tail.\n" * 20


def test_there_are_32_symbols():
    assert len(SYMBOLS) == len(set(SYMBOLS)) == 32
    assert set("abcdefghijklmnopqrstuvwxyz .,;'\n") == set(SYMBOLS)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("ABC xyz", "abc xyz"),
        ("Émile à Köln, ﬁn", "emile a koln, fin"),
        ("Stop! Who? Me: yes", "stop. who. me; yes"),
        ("well-known – or — so", "well known or so"),
        ("‘tis the dog’s `bone`", "'tis the dog's 'bone'"),
        ('“He said "12 times" (twice)”', "he said times twice"),
        ("a\tb/c\u00a0d", "a b c d"),
        ("a    b", "a b"),
        ("end.  \r\n\r\n   Next\rline\n\n\nlast", "end.\nnext\nline\nlast"),
        ("wait…", "wait..."),
        ("日本語 ß _ 5", " "),
        ("", ""),
    ],
)
def test_folds(text, folded):
    assert fold(text) == folded


@given(st.text(max_size=200))
def test_a_folded_text_has_no_other_symbol_and_no_double_space(text):
    folded = fold(text)
    assert set(folded) <= set(SYMBOLS)
    assert not any(double in folded for double in ("  ", "\n\n", " \n", "\n "))
    assert fold(folded) == folded


@given(st.text(alphabet=SYMBOLS + SYMBOLS.upper() + "é—?!", max_size=100))
def test_a_fold_keeps_every_letter_in_order(text):
    letters = [character for character in text.lower().replace("é", "e") if character.isalpha()]
    assert [character for character in fold(text) if character.isalpha()] == letters


def test_the_novel_ships_with_the_package():
    novel = read_text("persuasion")
    assert "Sir Walter Elliot, of Kellynch Hall" in novel
    assert len(fold(novel)) > 400_000
    assert len(TextCorpus()) == len(fold(novel)) // 4096
    # All symbols occur, so an injection uses 32 tokens.
    assert set(fold(novel)) == set(SYMBOLS)


def test_a_file_is_read(tmp_path):
    (tmp_path / "a.txt").write_text("Ünï", encoding="utf-8")
    assert read_text(tmp_path / "a.txt") == "Ünï"
    assert read_text(str(tmp_path / "a.txt")) == "Ünï"


def test_a_folder_is_its_txt_files_in_order(tmp_path):
    (tmp_path / "c").mkdir()
    for name, text in {"b.txt": "second", "a.txt": "first", "c/d.txt": "third", "notes.md": "no"}.items():
        (tmp_path / name).write_text(text)
    assert read_text(tmp_path) == "first\nsecond\nthird"


@pytest.mark.parametrize("content", [b"", b" \n\t "])
def test_an_empty_file_is_named(tmp_path, content):
    (tmp_path / "good.txt").write_text("good")
    (tmp_path / "empty.txt").write_bytes(content)
    for source in (tmp_path / "empty.txt", tmp_path):
        with pytest.raises(ValueError, match=r"empty\.txt: is empty"):
            read_text(source)


def test_a_file_that_is_not_utf8_is_named(tmp_path):
    (tmp_path / "latin.txt").write_bytes("abc é".encode("latin-1"))
    for source in (tmp_path / "latin.txt", tmp_path):
        with pytest.raises(ValueError, match=r"latin\.txt: is not UTF-8 \(byte 4\)"):
            read_text(source)


def test_a_missing_path_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"text is '.*none\.txt'; allowed: 'persuasion', a \.txt file or a folder"):
        read_text(tmp_path / "none.txt")


def test_a_folder_without_txt_files_is_named(tmp_path):
    (tmp_path / "notes.md").write_text("text")
    with pytest.raises(ValueError, match=r"holds no \.txt file"):
        read_text(tmp_path)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "fox.txt"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize(("text", "characters"), [("too short", 9), ("日本語のテキスト" * 10, 0)])
def test_a_text_shorter_than_a_sequence_is_refused(source, text, characters):
    source.write_text(text, encoding="utf-8")
    with pytest.raises(
        ValueError, match=rf"fox\.txt: has {characters} characters; allowed: at least context_length = 10"
    ):
        TextCorpus(source, context_length=10)


@pytest.mark.parametrize(
    ("field", "value"),
    [("vocab_size", 31), ("vocab_size", 65_537), ("context_length", 0), ("seed", -1), ("seed", 1.5)],
)
def test_bad_arguments_are_refused(source, field, value):
    with pytest.raises(ValueError, match=f"{field} is {value}"):
        TextCorpus(source, **{"context_length": 10, field: value})


@pytest.mark.parametrize("vocab_size", [32, 100, 300])
def test_sequences_tile_the_text(source, vocab_size):
    length = 100
    corpus = TextCorpus(source, context_length=length, vocab_size=vocab_size, seed=5)
    folded = fold(TEXT)
    assert len(corpus) == len(folded) // length
    decoded = ""
    for index in range(len(corpus)):
        symbol_of = {int(token): SYMBOLS[code] for code, token in enumerate(corpus.injection(index))}
        assert corpus[index].shape == (length,)
        decoded += "".join(symbol_of[int(token)] for token in corpus[index])
    assert decoded == folded[: len(corpus) * length]
    assert corpus[0].dtype == (np.uint8 if vocab_size <= 256 else np.uint16)
    np.testing.assert_array_equal(corpus.batch([3, 0]), np.stack([corpus[3], corpus[0]]))
    np.testing.assert_array_equal(corpus[-1], corpus[len(corpus) - 1])


def test_sequences_end(source):
    corpus = TextCorpus(source, context_length=100)
    for index in (len(corpus), -len(corpus) - 1):
        with pytest.raises(IndexError, match=f"index is {index}"):
            corpus[index]


def test_the_first_sequences_are_the_same_ones(source):
    corpus = TextCorpus(source, context_length=100)
    part = corpus.first(3)
    assert (len(part), len(corpus)) == (3, len(fold(TEXT)) // 100)
    np.testing.assert_array_equal(part.batch(range(3)), corpus.batch(range(3)))
    assert len(corpus.first(10**6)) == len(corpus)
    with pytest.raises(ValueError, match="count is 0"):
        corpus.first(0)


def test_a_text_of_exactly_one_sequence_is_enough(source):
    corpus = TextCorpus(source, context_length=len(fold(TEXT)))
    assert len(corpus) == 1


@pytest.mark.parametrize("vocab_size", [32, 33, 256, 257, 1000])
def test_an_injection_gives_every_symbol_its_own_token(vocab_size):
    tokens = random_injection(Space("test@1", "text"), 3, vocab_size)
    assert len(set(tokens.tolist())) == len(tokens) == 32
    assert tokens.max() < vocab_size


def test_injections_differ_by_index_and_seed_and_are_drawn_alike_each_time(source):
    corpora = [TextCorpus(source, context_length=100, seed=seed) for seed in (0, 1, 0)]
    drawn = [[corpus.injection(index).tobytes() for index in range(8)] for corpus in corpora]
    assert drawn[0] == drawn[2]
    assert len({*drawn[0], *drawn[1]}) == 16


@pytest.mark.parametrize("vocab_size", [32, 40])
def test_injections_are_uniform(vocab_size):
    space = Space("test@1", "text", 9)
    drawn = np.array([random_injection(space, index, vocab_size) for index in range(8000)])
    for symbol in (0, 13, 31):
        counts = np.bincount(drawn[:, symbol], minlength=vocab_size)
        assert stats.chisquare(counts).pvalue > ALARM
    # Two symbols together: they never share a token, and are otherwise free.
    pairs = Counter((int(a) % 4, int(b) % 4) for a, b in drawn[:, [4, 20]])
    quarter = vocab_size // 4
    same, other = quarter * (quarter - 1), quarter * quarter
    expected = np.array([same if a == b else other for a in range(4) for b in range(4)])
    observed = np.array([pairs[a, b] for a in range(4) for b in range(4)])
    assert stats.chisquare(observed, expected * (8000 / expected.sum())).pvalue > ALARM
