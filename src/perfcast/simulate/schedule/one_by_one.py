"""Schedules of one chunk a stage: GPipe, 1F1B, zero-bubble, and forwards alone."""

from __future__ import annotations

from perfcast.simulate.schedule.action import Action, Actions, Pass


def forward_only(num_micro_batches: int) -> Actions:
    """Forwards in the order of micro-batches, as in inference."""
    return tuple(Action(Pass.FORWARD, at) for at in range(num_micro_batches))


def gpipe(num_micro_batches: int) -> Actions:
    """All forwards, then all backwards (Huang et al.: GPipe, NeurIPS 2019, section 2.3)."""
    backwards = tuple(Action(Pass.BACKWARD, at) for at in range(num_micro_batches))
    return forward_only(num_micro_batches) + backwards


def one_forward_one_backward(num_stages: int, stage: int, num_micro_batches: int) -> Actions:
    """1F1B: as many forwards as stages follow, a forward and a backward in turn, the last backwards.

    Source: Narayanan et al.: PipeDream, SOSP 2019, section 3.2; with a flush, Narayanan et al.: Efficient
    large-scale language model training, SC 2021, section 2.2.1.
    """
    ahead = min(num_stages - stage - 1, num_micro_batches)
    actions = [Action(Pass.FORWARD, at) for at in range(ahead)]
    for at in range(num_micro_batches):
        if ahead + at < num_micro_batches:
            actions.append(Action(Pass.FORWARD, ahead + at))
        actions.append(Action(Pass.BACKWARD, at))
    return tuple(actions)


def zero_bubble(num_stages: int, stage: int, num_micro_batches: int) -> Actions:
    """ZB-H1: 1F1B with gradients of weights put off to where the pipeline drains.

    Stage s computes the gradients of weights s micro-batches behind those of inputs, so it holds no more
    activations than the first stage of 1F1B (Qi et al.: Zero bubble pipeline parallelism, ICLR 2024, section
    2.1).
    """
    ahead = min(num_stages - stage - 1, num_micro_batches)
    actions = [Action(Pass.FORWARD, at) for at in range(ahead)]
    num_done = 0
    for at in range(num_micro_batches):
        is_draining = ahead + at >= num_micro_batches
        if not is_draining:
            actions.append(Action(Pass.FORWARD, ahead + at))
        actions.append(Action(Pass.INPUT_GRADIENT, at))
        if is_draining or at >= stage:
            actions.append(Action(Pass.WEIGHT_GRADIENT, num_done))
            num_done += 1
    actions += [Action(Pass.WEIGHT_GRADIENT, at) for at in range(num_done, num_micro_batches)]
    return tuple(actions)
