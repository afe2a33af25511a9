"""Requests of stated lengths: few that stand for the whole distribution, in an order drawn by a seed.

Each of n requests has the length at the middle of one of n equally likely parts of the distribution
(stratified, so that a mean of two hundred is that of the distribution), and prompts and answers are put in an
order of their own. Scale and rounding keep the mean that was asked for.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.serving.lengths import Lengths
from perfcast.core.serving.load import RecordedLoad
from perfcast.core.serving.requests import Requests
from perfcast.errors import InputError
from perfcast.prediction.request.serving import ServingRequest


def requests_of(request: ServingRequest) -> Requests:
    """The requests that are played; none has come yet unless the load is a recording.

    Raises:
        InputError: More requests asked for than a file has.
    """
    if request.requests is None:
        assert request.prompts is not None  # checked by the request
        assert request.answers is not None
        return draw_requests(
            request.prompts,
            request.answers,
            request.played_requests,
            prefix_hit_share=request.prefix_hit_share,
            seed=request.seed,
        )
    return _recorded(request, request.requests)


def _recorded(request: ServingRequest, found: Requests) -> Requests:
    """The first of a recording, with its own times where these count, and its own or the stated hits."""
    count = request.played_requests
    if count > len(found):
        raise InputError(f"{count:,} requests asked for, but the file has {len(found):,}")
    keeps_times = isinstance(request.load, RecordedLoad)
    prompts = found.prompt_tokens[:count]
    stated = hits_of(prompts, request.prefix_hit_share)
    arrivals = found.arrival_seconds[:count]
    return Requests(
        arrival_seconds=arrivals - arrivals[0] if keeps_times else np.zeros(count),
        prompt_tokens=prompts,
        answer_tokens=found.answer_tokens[:count],
        cached_tokens=stated if request.prefix_hit_share else found.cached_tokens[:count],
    )


def draw_requests(
    prompts: Lengths, answers: Lengths, count: int, *, prefix_hit_share: float = 0.0, seed: int = 0
) -> Requests:
    """Requests of stated lengths, all at second zero: a load says when each is sent.

    Args:
        prefix_hit_share: Of each prompt's tokens, those that are cached.
        seed: Of the order; equal seeds give equal requests.

    Raises:
        InputError: No request.
    """
    if count < 1:
        raise InputError(f"{count} requests: at least one")
    order = np.random.default_rng(seed)
    prompt_tokens = order.permutation(stratified_lengths(prompts, count))
    answer_tokens = order.permutation(stratified_lengths(answers, count))
    return Requests(np.zeros(count), prompt_tokens, answer_tokens, hits_of(prompt_tokens, prefix_hit_share))


def hits_of(prompt_tokens: Integers, share: float) -> Integers:
    """Of each prompt, the cached tokens: a share, and never the last, whose logits are needed."""
    found = np.floor(prompt_tokens * share).astype(np.int64)
    return np.asarray(np.minimum(found, prompt_tokens - 1), dtype=np.int64)


def stratified_lengths(lengths: Lengths, count: int) -> Integers:
    """One length of each of ``count`` equally likely parts, rising, shape (count,).

    >>> stratified_lengths(Lengths(100, "uniform", 0.2), 4).tolist()
    [85, 95, 105, 115]
    """
    places = (np.arange(count) + 0.5) / count
    exact = _quantiles(lengths, places)
    exact = np.maximum(exact * (lengths.mean_tokens / exact.mean()), 1.0)
    ends = np.rint(np.cumsum(exact))  # rounded so that the sum stays: the mean is the stated one
    found = np.maximum(np.diff(ends, prepend=0.0), 1.0).astype(np.int64)
    return np.sort(found)


def _quantiles(lengths: Lengths, places: Floats) -> Floats:
    mean, spread = lengths.mean_tokens, lengths.spread
    if lengths.shape == "fixed":
        return np.full(len(places), mean)
    if lengths.shape == "uniform":
        return np.asarray(mean * (1.0 - spread + 2.0 * spread * places))
    standard = NormalDist()
    scores = np.array([standard.inv_cdf(place) for place in places.tolist()])
    if lengths.shape == "normal":
        return np.maximum(mean * (1.0 + spread * scores), 1.0)
    sigma = math.sqrt(math.log1p(spread * spread))
    return np.asarray(mean * np.exp(sigma * scores - 0.5 * sigma * sigma))
