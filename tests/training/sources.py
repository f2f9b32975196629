"""Small sources that loader workers can import quickly."""

import numpy as np
import torch
from torch.utils.data import IterableDataset


class Numbers:
    """Sequence i holds i twice, so that a batch shows what was drawn."""

    def __len__(self):
        return 1000

    def batch(self, indices):
        return np.stack([indices, indices], axis=1).astype(np.uint32)


class BothRanks(IterableDataset):
    """The streams of two ranks side by side, for one loader: starting workers is what takes the time here."""

    def __init__(self, ranks):
        self.ranks = ranks

    def __iter__(self):
        for batches in zip(*self.ranks, strict=True):
            yield torch.stack(batches)
