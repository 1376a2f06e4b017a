"""L-BFGS: minimise a smooth function of many variables by its gradient (Nocedal and Wright: Numerical Optimization,
2nd edition, algorithms 7.4 and 7.5), as a fixed sequence of operations: the same bits every time.

Steps are found by halving (Armijo's condition, algorithm 3.1); a pair whose curvature is not positive is left out.
"""

import numpy as np

from riparian.models.bags.likelihood import gradient_of
from riparian.models.kernels.kernel import kernel

MEMORY = 10
ARMIJO = 1e-4
HALVINGS = 30


@kernel
def _dot(a, b):
    """By hand: numba's needs scipy, and a BLAS may sum in another order on another machine."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@kernel(allocates=True)
def _direction(gradient, steps, changes, curvature, n_pairs, newest, direction, alpha):
    """-H gradient into `direction` (mutated), by the two loops. O(d pairs)."""
    direction[:] = gradient
    for back in range(n_pairs):
        i = (newest - back) % MEMORY
        alpha[i] = _dot(steps[i], direction) / curvature[i]
        direction -= alpha[i] * changes[i]
    if n_pairs > 0:
        direction *= curvature[newest] / _dot(changes[newest], changes[newest])
    for back in range(n_pairs - 1, -1, -1):
        i = (newest - back) % MEMORY
        direction += steps[i] * (alpha[i] - _dot(changes[i], direction) / curvature[i])
    direction *= -1.0


@kernel(allocates=True)
def optimise_scale(training, target, scale, n_values, cap, max_steps, tolerance):
    """Minimise the loss at `target` over `scale` (mutated); the loss. O(n d) a step."""
    d = len(scale)
    distances = np.empty(max(1, training.size.max()))
    gradient, after, direction, trial = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    steps, changes = np.empty((MEMORY, d)), np.empty((MEMORY, d))
    curvature, alpha = np.empty(MEMORY), np.empty(MEMORY)
    n_pairs, newest = 0, -1
    loss = gradient_of(training, target, scale, n_values, cap, distances, gradient)
    for _ in range(max_steps):
        largest = np.abs(gradient).max()
        if largest <= tolerance:
            break
        _direction(gradient, steps, changes, curvature, n_pairs, newest, direction, alpha)
        slope = _dot(direction, gradient)
        if not slope < 0.0:
            n_pairs = 0
            direction[:] = -gradient
            slope = -_dot(gradient, gradient)
        length = 1.0 if n_pairs > 0 else min(1.0, 1.0 / np.sqrt(-slope))
        found = False
        for _ in range(HALVINGS):
            trial[:] = scale + length * direction
            new = gradient_of(training, target, trial, n_values, cap, distances, after)
            if new <= loss + ARMIJO * length * slope:
                found = True
                break
            length *= 0.5
        if not found:
            break
        place = (newest + 1) % MEMORY
        steps[place] = trial - scale
        changes[place] = after - gradient
        curvature[place] = _dot(steps[place], changes[place])
        if curvature[place] > 1e-10 * _dot(changes[place], changes[place]):
            newest = place
            n_pairs = min(n_pairs + 1, MEMORY)
        gained = loss - new
        scale[:] = trial
        gradient[:] = after
        loss = new
        if gained <= tolerance * max(1.0, abs(loss)):
            break
    return loss
