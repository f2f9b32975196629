"""The experiments of pvr: every figure of the paper, and Table 1."""

from __future__ import annotations

from neophyte.experiments.base import Experiment
from neophyte.experiments.pvr import accuracy, dynamics, images, noise, scales
from neophyte.experiments.pvr.tables import claims_sweep, claims_table1, draw_sweep

EXPERIMENTS = (
    Experiment("pvr-fig5", "noise sensitivity by window size and aggregation, sampled and exact",
               scales.fig5_trials, noise.draw_fig5, noise.claims_fig5),
    Experiment("pvr-fig6", "blocks of digits: IID, holdout training and holdout test",
               scales.fig6_trials, images.draw_fig6, images.claims_fig6, scales.check_banks, scales.fetch_banks),
    Experiment("pvr-fig7", "training curves on blocks of digits, IID and under holdout",
               scales.fig7_trials, images.draw_fig7, images.claims_fig7, scales.check_banks, scales.fetch_banks),
    Experiment("pvr-fig8", "logits of held-out blocks after IID and holdout training",
               scales.logit_trials, images.draw_fig8, images.claims_logits, scales.check_banks, scales.fetch_banks),
    Experiment("pvr-fig9", "the MLP by complexity and training-set size",
               scales.fig9_trials, accuracy.draw_fig9, accuracy.claims_fig9),
    Experiment("pvr-fig10", "MLP, MLP 2x, Transformer and MLP-Mixer by complexity and size, and the official score",
               scales.fig10_trials, accuracy.draw_fig10, accuracy.claims_fig10),
    Experiment("pvr-fig11", "MLP and MLP-Mixer at massive sizes",
               scales.fig11_trials, accuracy.draw_fig11, accuracy.claims_fig11),
    Experiment("pvr-fig12", "learning curves of fast and slow learners",
               scales.fig12_trials, dynamics.draw_curves, dynamics.claims_curves),
    Experiment("pvr-fig13", "how alike fast and slow learners are: linear CKA",
               scales.fig13_trials, dynamics.draw_cka, dynamics.claims_cka),
    Experiment("pvr-fig14", "holdout of window permutations, and of balanced windows",
               scales.fig14_trials, accuracy.draw_fig14, accuracy.claims_fig14),
    Experiment("pvr-fig15", "more logits, as in fig8",
               scales.logit_trials, images.draw_fig15, images.claims_logits, scales.check_banks, scales.fetch_banks),
    Experiment("pvr-fig16", "aggregations by complexity and size",
               scales.fig16_trials, accuracy.draw_fig16, accuracy.claims_fig16),
    Experiment("pvr-fig17", "MLP-Mixer with and without a pointer",
               scales.fig17_trials, accuracy.draw_fig17, accuracy.claims_fig17),
    Experiment("pvr-fig18", "fast and slow learners under holdout, and their CKA",
               scales.fig18_trials, dynamics.draw_fig18, dynamics.claims_fig18),
    Experiment("pvr-sweep", "the search of appendix A for optimiser, learning rate and batch size",
               scales.sweep_of_recipes, draw_sweep, claims_sweep),
    Experiment("pvr-table1", "configurations and parameter counts", scales.table1_trials, None, claims_table1),
)  # fmt: skip
