"""Table 1 of pvr: the parameters of the four token classifiers."""

from __future__ import annotations

from neophyte.experiments.base import FAILS, HOLDS, Claim
from neophyte.running.trials import Row


def claims_table1(rows: list[Row], scale: str) -> list[Claim]:
    """Test the parameter counts; they do not depend on the scale."""
    detail = ", ".join(f"{row['model']}: {row['parameters']:,}" for row in rows)
    holds = all(row["parameters"] == row["published_count"] for row in rows)
    return [Claim("The token classifiers have Table 1's parameters", HOLDS if holds else FAILS, detail)]
