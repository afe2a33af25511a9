"""What verbs are asked, as plain data: read, made a request, and answered for a share of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fuzz.questions import GOOD, expand, seeds
from fuzz.target import Target
from perfcast.verbs.memory import request as memory
from perfcast.verbs.predict import request as predict
from perfcast.verbs.question import Question, plain_of, question_of
from perfcast.verbs.replay import request as replay
from perfcast.verbs.scale import request as scale
from perfcast.verbs.scale.question import ScaleQuestion
from perfcast.verbs.search import request as search
from perfcast.verbs.search.answer import check_search
from perfcast.verbs.search.question import SearchQuestion
from perfcast.verbs.serving import request as serving

#: Verbs that answer in a moment where sizes are small.
ANSWERED = ("predict", "memory", "serving", "search", "scale", "mesh cost", "shard")


def _question(verb: str, data: bytes) -> Question | None:
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(plain, dict):
        return None
    found = question_of(verb, plain)
    assert question_of(verb, plain_of(found)) == found, "what is said of a question reads as another"
    return found


def _search_request(asked: SearchQuestion) -> object:
    check_search(asked)
    if asked.is_sweep or asked.search_mode == "serving":
        return None
    if asked.search_mode == "train":
        return search.training_request_of(asked)
    return search.inference_request_of(asked)


def _scale_request(asked: ScaleQuestion) -> object:
    if asked.limits or asked.model is None or not asked.clusters:
        return None
    if asked.scaled_mode == "train":
        return scale.training_request_of(asked.model, asked)
    return scale.inference_request_of(asked.model, asked)


#: Verb → what its room makes of a question before it works; of others a question is made alone.
REQUESTS: Mapping[str, Callable[[Any], object]] = {
    "predict": predict.request_of,
    "memory": memory.request_of,
    "serving": serving.request_of,
    "search": lambda asked: _search_request(asked),
    "scale": lambda asked: _scale_request(asked),
    "replay": replay.request_of,
}


def _read(verb: str, data: bytes) -> object:
    asked = _question(verb, data)
    return asked if asked is None or verb not in REQUESTS else REQUESTS[verb](asked)


def _answered(verb: str, data: bytes) -> object:
    from perfcast.verbs.answer import answer

    asked = _question(verb, data)
    if asked is None or (isinstance(asked, SearchQuestion) and asked.is_sweep):  # a sweep keeps its parts
        return None
    found = answer(asked)
    assert "\x1b" not in found.to_json(), "an escape in an answer"
    return found


def _target(kind: str, verb: str, run: object, **others: object) -> Target:
    return Target(
        name=f"{kind}/{verb.replace(' ', '-')}",
        run=partial(run, verb),  # type: ignore[arg-type]
        seeds=partial(seeds, verb),
        expand=partial(expand, verb),
        is_drawn=True,
        **others,  # type: ignore[arg-type]
    )


TARGETS = (
    *(_target("question", verb, _read) for verb in GOOD),
    *(
        _target("answer", verb, _answered, seconds=30.0, share=0.03, usual=2, memory_bytes=1_500_000_000)
        for verb in ANSWERED
    ),
)
