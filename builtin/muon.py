"""Muon, the optimizer of the matrices."""

import torch


class Muon:
    """Momentum whose step is the nearest orthogonal matrix, scaled to AdamW's usual size: 0.2·sqrt(max(rows, cols)).

    Equal shapes are stepped together. Sources: Jordan et al. 2024 ("Muon"; the quintic iteration's coefficients);
    Liu et al. 2025, arXiv:2502.16982, section 2.2 (scale and weight decay).
    """

    def __init__(self, matrices, weight_decay, momentum=0.95):
        self.groups = {}
        for p in matrices:
            self.groups.setdefault(p.shape, []).append(p)
        self.moments = {shape: torch.zeros_like(torch.stack(list(group))) for shape, group in self.groups.items()}
        self.weight_decay, self.momentum = weight_decay, momentum

    @torch.no_grad()
    def step(self, lr):
        for shape, group in self.groups.items():
            grad, moment = torch.stack([p.grad for p in group]), self.moments[shape]
            moment.lerp_(grad, 1 - self.momentum)
            x = grad.lerp(moment, self.momentum).bfloat16()  # Nesterov
            x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
            for _ in range(5):
                gram = x @ x.mT
                x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
            update = (x.float() * (-lr * 0.2 * max(shape) ** 0.5)).unbind()
            torch._foreach_mul_(group, 1 - lr * self.weight_decay)
            torch._foreach_add_(group, update)
