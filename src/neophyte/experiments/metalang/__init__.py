"""The Meta-Language experiments of gpicl, and the demo."""

from __future__ import annotations

from neophyte.experiments.base import Experiment
from neophyte.experiments.metalang.claims import claims_demo, claims_fig3, claims_fig5
from neophyte.experiments.metalang.curves import draw_demo, draw_fig3, draw_panels
from neophyte.experiments.metalang.generation import claims_fig4, draw_fig4
from neophyte.experiments.metalang.scales import (
    SCALES,
    check_texts,
    comparison_trial,
    counting_trial,
    demo_trial,
    evaluation_trial,
    generation_trials,
    training_trial,
)
from neophyte.experiments.metalang.training import claims_fig12a, claims_table1, draw_fig12a

DEMO_STEPS = {"smoke": 6, "laptop": 1100}

EXPERIMENTS = (
    Experiment(
        "demo",
        "a small model learns to learn unknown languages, and then learns English in context",
        lambda scale: [demo_trial(DEMO_STEPS[scale])],
        draw_demo,
        claims_demo,
        check_texts,
        required=True,
        scales=("smoke", "laptop"),
    ),
    Experiment(
        "gpicl-fig3",
        "loss by position for orders 2-8 and natural text, one model",
        lambda scale: [evaluation_trial(scale, SCALES[scale].models[-1])],
        draw_fig3,
        claims_fig3,
        check_texts,
    ),
    Experiment(
        "gpicl-fig4",
        "generated words and equations, with half and full contexts",
        generation_trials,
        draw_fig4,
        claims_fig4,
    ),
    Experiment(
        "gpicl-fig5",
        "the same curves by model size, with every control",
        lambda scale: [*(evaluation_trial(scale, model) for model in SCALES[scale].models), comparison_trial(scale)],
        draw_panels,
        claims_fig5,
        check_texts,
    ),
    Experiment(
        "gpicl-fig12a",
        "training loss by iteration",
        lambda scale: [training_trial(scale, model) for model in SCALES[scale].models],
        draw_fig12a,
        claims_fig12a,
    ),
    Experiment(
        "gpicl-table1",
        "configurations and parameter counts",
        lambda scale: [counting_trial()],
        None,
        claims_table1,
    ),
)
