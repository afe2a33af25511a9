"""Why fixed values leave no plan, in the numbers of the rule that they break."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perfcast.core.model.transformer import Transformer
from perfcast.core.plans.text import PLAN_KEYS, PlanValue
from perfcast.searches.space.fixed import code_of

_Values = Mapping[str, int]


def broken_rules(
    model: Transformer,
    num_devices: int,
    global_batch_size: int | None,
    sequence_length: int,
    fixed: Mapping[str, PlanValue],
) -> list[str]:
    """Each rule that some fixed values break by themselves, with its numbers.

    Args:
        global_batch_size: None where every plan has a batch of its own.
    """
    words = {key: PLAN_KEYS[key].write(value) for key, value in fixed.items()}
    values = {key: code_of(key, value) for key, value in fixed.items() if key not in _WORDS}
    found = [
        *_of_devices(values, num_devices),
        *_of_model(model, values),
        *_of_sequence(values, sequence_length),
        *_of_batch(values, num_devices, global_batch_size),
        *_of_states(values),
        *_of_schedules(words, values, model, num_devices, global_batch_size),
        *_of_recomputation(words, values, model),
    ]
    return list(dict.fromkeys(found))


#: Axes that make up all devices.
_NUM_AXES = 4
_WORDS = ("recompute", "schedule", "stages", "offload", "order", "cp_type")


def _of_devices(values: _Values, num_devices: int) -> list[str]:
    named = {key: values[key] for key in ("dp", "tp", "pp", "cp") if key in values}
    whole = 1
    for value in named.values():
        whole *= value
    if not named or (num_devices % whole == 0 and (len(named) < _NUM_AXES or whole == num_devices)):
        return []
    product = " · ".join(f"{key}={value}" for key, value in named.items())
    said = f"{product} = {whole}" if len(named) > 1 else product
    if len(named) == _NUM_AXES:
        return [f"{said}, not {num_devices:,} devices"]
    return [f"{said} does not divide {num_devices:,} devices"]


def _of_model(model: Transformer, values: _Values) -> list[str]:
    heads, kv, found = model.num_attention_heads, model.num_kv_heads, []
    if (tp := values.get("tp", 1)) > 1:
        if heads % tp:
            found.append(f"tp={tp} does not divide {heads} attention heads")
        elif kv % tp and tp % kv:
            found.append(f"tp={tp} neither divides {kv} key and value heads nor is a multiple of them")
        if model.ffn_hidden_size % tp:
            found.append(f"tp={tp} does not divide an MLP of {model.ffn_hidden_size}")
    pp, vp = values.get("pp", 1), values.get("vp", 1)
    if pp > model.num_layers:
        found.append(f"pp={pp} stages for {model.num_layers} layers")
    elif vp > 1 and "pp" in values and model.num_layers % (pp * vp):
        found.append(f"{model.num_layers} layers are no multiple of pp={pp} · vp={vp} = {pp * vp}")
    elif vp > 1 and model.num_layers % vp and "pp" not in values:
        found.append(f"vp={vp} does not divide {model.num_layers} layers")
    found += _of_experts(model, values)
    return found


def _of_experts(model: Transformer, values: _Values) -> list[str]:
    ep, etp = values.get("ep", 1), values.get("etp", 1)
    if model.experts is None:
        return [f"ep={ep}: the model has no experts"] * (ep > 1)
    found = []
    if model.experts.num_experts % ep:
        found.append(f"ep={ep} does not divide {model.experts.num_experts} experts")
    if model.experts.ffn_hidden_size % etp:
        found.append(f"etp={etp} does not divide experts of {model.experts.ffn_hidden_size}")
    if "etp" in values and "tp" in values and etp not in (1, values["tp"]):
        found.append(f"etp={etp} is neither 1 nor tp={values['tp']}")
    return found


def _of_sequence(values: _Values, sequence_length: int) -> list[str]:
    cp, tp = values.get("cp", 1), values.get("tp", 1)
    if sequence_length % cp:
        return [f"cp={cp} does not divide a sequence of {sequence_length:,}"]
    if not values.get("sp"):
        return []
    if values.get("tp") == 1:
        return ["sp=1 cuts what tensor parallelism leaves whole; with tp=1 there is nothing to cut"]
    if sequence_length % (cp * tp):
        return [f"sp=1: cp={cp} · tp={tp} = {cp * tp} does not divide a sequence of {sequence_length:,}"]
    return []


def _of_batch(values: _Values, num_devices: int, global_batch_size: int | None) -> list[str]:
    dp, mbs = _replicas(values, num_devices), values.get("mbs", 1)
    each = (dp or 1) * mbs
    if global_batch_size is None or global_batch_size % each == 0:
        return []
    if dp is None:
        return [f"mbs={mbs} does not divide a batch of {global_batch_size:,}"]
    if mbs == 1:
        return [f"dp={dp} replicas do not divide a batch of {global_batch_size:,}"]
    return [f"dp={dp} · mbs={mbs} = {each} does not divide a batch of {global_batch_size:,}"]


def _replicas(values: _Values, num_devices: int) -> int | None:
    """dp, stated or as it follows from all other degrees."""
    if "dp" in values:
        return values["dp"]
    if not all(key in values for key in ("tp", "pp", "cp")):
        return None
    return max(num_devices // (values["tp"] * values["pp"] * values["cp"]), 1)


def _of_states(values: _Values) -> list[str]:
    zero, found = values.get("zero"), []
    if zero == 3 and values.get("pp", 1) > 1:
        found.append(f"zero=3 shards weights as FSDP does, without a pipeline: pp={values['pp']} has stages")
    if zero and values.get("dp") == 1 and values.get("cp") == 1:
        found.append(f"zero={zero} shards over dp · cp = 1 replica")
    if "shards" in values and zero == 0:
        found.append(f"shards={values['shards']}: zero=0 shards nothing")
    if "shards" in values and "dp" in values:
        replicas = values["dp"] * values.get("cp", 1)
        if replicas % values["shards"] or not 1 < values["shards"] < replicas:
            found.append(f"shards={values['shards']} is no part of dp · cp = {replicas} replicas")
    if values.get("reshard") == 0 and zero not in (None, 3):
        found.append(f"reshard=0 is of zero=3, not zero={zero}")
    if values.get("reshard") == 0 and values.get("pp", 1) > 1:
        found.append(f"reshard=0 is of zero=3, which has no pipeline: pp={values['pp']}")
    return found


def _of_schedules(
    words: Mapping[str, str],
    values: _Values,
    model: Transformer,
    num_devices: int,
    global_batch_size: int | None,
) -> list[str]:
    schedule, pp, vp = words.get("schedule"), values.get("pp"), values.get("vp")
    dp = _replicas(values, num_devices)
    count = None
    if global_batch_size is not None and dp is not None and "mbs" in values:
        count = global_batch_size // (dp * values["mbs"])
    rules: tuple[tuple[bool, Callable[[], str]], ...] = (
        (
            pp == 1 and schedule not in (None, "1f1b"),
            lambda: f"schedule={schedule} needs several stages, not pp=1",
        ),
        (pp == 1 and (vp or 1) > 1, lambda: f"vp={vp} chunks a rank need several stages, not pp=1"),
        (schedule == "interleaved" and vp == 1, lambda: "schedule=interleaved needs vp above 1"),
        (
            schedule not in (None, "interleaved") and (vp or 1) > 1,
            lambda: f"vp={vp} is of schedule=interleaved, not of {schedule}",
        ),
        (
            schedule == "dualpipe" and (pp or 2) > 1 and (pp or 2) % 2 == 1,
            lambda: f"schedule=dualpipe needs an even number of stages, not pp={pp}",
        ),
        (
            schedule == "dualpipe" and None not in (count, pp) and (count < 2 * pp or count % 2 == 1),  # type: ignore[operator]
            lambda: f"schedule=dualpipe needs an even number of micro-batches, 2 · pp or more, not {count}",
        ),
        (
            (vp or 1) > 1 and None not in (count, pp) and count % pp != 0,  # type: ignore[operator]
            lambda: f"{count} micro-batches are no multiple of pp={pp}, as interleaved chunks need",
        ),
        ("stages" in words and bool(_stages(words, values, model)), lambda: _stages(words, values, model)),
    )
    return [say() for is_broken, say in rules if is_broken]


def _stages(words: Mapping[str, str], values: _Values, model: Transformer) -> str:
    """What is wrong with stated layers; '' where nothing is."""
    if "/" not in words["stages"]:
        return ""
    parts = [int(part) for part in words["stages"].split("/")]
    if sum(parts) != model.num_layers:
        return f"stages={words['stages']} are {sum(parts)} layers; the model has {model.num_layers}"
    if "pp" in values and len(parts) not in (values["pp"], values["pp"] * values.get("vp", 1)):
        return f"stages={words['stages']} are {len(parts)} parts, not pp={values['pp']}"
    return ""


def _of_recomputation(words: Mapping[str, str], values: _Values, model: Transformer) -> list[str]:
    layers, found = values.get("recompute_layers"), []
    if layers is None:
        return []
    if words.get("recompute", "full") != "full":
        found.append(f"recompute_layers={layers} is of recompute=full, not {words['recompute']}")
    parts = values.get("pp", 1) * values.get("vp", 1)
    most = -(-model.num_layers // parts)
    if layers > most:
        found.append(f"recompute_layers={layers} of a part of the model that has at most {most}")
    return found
