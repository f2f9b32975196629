"""Download natural text. Nothing else in the package uses the network."""

from __future__ import annotations

from pathlib import Path

from neophyte.core.files import write_text


def fetch_pg19(source: str, folder: str | Path) -> int:
    """Write the books of PG-19's test set (J. Rae et al., 2019) as text files, one each.

    Args:
        source: A data set on the Hugging Face hub that holds Parquet files, or a local folder of them; its split "test"
            has a column "text".
        folder: Where to write; a book that is there already is kept.

    Returns:
        The number of books.

    Raises:
        ValueError: The data set cannot be loaded or has no such column.
    """
    from datasets import load_dataset

    try:
        books = load_dataset(source, split="test")
    except Exception as error:  # noqa: BLE001  the hub's client raises errors of a dozen kinds
        raise ValueError(
            f"source is {source!r}, which cannot be loaded: {' '.join(str(error).split())[:200]}"
        ) from None
    if "text" not in books.column_names:
        raise ValueError(f"source is {source!r}, whose columns are {books.column_names}; allowed: one named 'text'")
    for number, book in enumerate(books):
        path = Path(folder) / f"book-{number:04d}.txt"
        if not path.exists():
            write_text(path, book["text"])
    return len(books)
