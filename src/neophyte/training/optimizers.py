"""Optimizers by name: torch's own, and LAMB."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor, nn

from neophyte.training.spec import TrainSpec


def make_optimizer(parameters: Iterable[nn.Parameter], spec: TrainSpec) -> torch.optim.Optimizer:
    """Return the optimizer of a spec; its rate is set before each step."""
    rate, decay = spec.learning_rate, spec.weight_decay
    if spec.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=rate, momentum=spec.momentum, weight_decay=decay)
    if spec.optimizer == "adagrad":
        return torch.optim.Adagrad(parameters, lr=rate, weight_decay=decay)
    if spec.optimizer == "lamb":
        return Lamb(parameters, lr=rate, betas=spec.betas, weight_decay=decay)
    return torch.optim.Adam(parameters, lr=rate, betas=spec.betas, weight_decay=decay)


class Lamb(torch.optim.Optimizer):
    """LAMB: Adam's direction, scaled for each tensor to the norm of its weights (Y. You et al., 2019, Algorithm 2).

    Args:
        parameters: What to optimise.
        lr: Rate.
        betas: Decay rates of the two moments.
        eps: Added to the root of the second moment.
        weight_decay: Times the weights, added to the direction before it is scaled.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Take one step; return the closure's loss, if there is one."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group, self.state[parameter])
        return loss

    @staticmethod
    def _update(parameter: nn.Parameter, gradient: Tensor, group: dict[str, Any], state: dict[str, Any]) -> None:
        if not state:
            state.update(step=0, first=torch.zeros_like(parameter), second=torch.zeros_like(parameter))
        state["step"] += 1
        (beta1, beta2), step = group["betas"], state["step"]
        state["first"].lerp_(gradient, 1 - beta1)
        state["second"].lerp_(gradient.square(), 1 - beta2)
        first, second = state["first"] / (1 - beta1**step), state["second"] / (1 - beta2**step)
        direction = first / (second.sqrt() + group["eps"]) + group["weight_decay"] * parameter
        weights, length = parameter.norm(), direction.norm()
        trust = torch.where((weights > 0) & (length > 0), weights / length, torch.ones_like(weights))
        parameter.sub_(direction * (group["lr"] * trust))
