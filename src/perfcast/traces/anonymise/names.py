"""Which names of a trace are everybody's, and hashes in place of the others."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from perfcast.files.plain import json_or_none

#: Namespaces whose operators are public.
_PUBLIC = frozenset(
    {"aten", "prims", "prim", "c10d", "_c10d_functional", "c10", "torch", "torchvision", "fbgemm",
     "quantized", "autograd", "nccl", "gloo", "mkldnn", "cudnn"}
)  # fmt: skip
_OPERATOR = re.compile(r"([A-Za-z_]\w*)::(\w{1,100}(?:\.\w{1,100})?)")
_EVALUATE = "autograd::engine::evaluate_function: "
#: Labels that PyTorch writes itself.
_STANDARD = re.compile(
    r"\[pytorch\|profiler\|execution_(trace|graph)\|(process|thread)\]|ProfilerStep#\d+"
    r"|Optimizer\.(step|zero_grad)#(SGD|Adam|AdamW|Adagrad|Adamax|Adadelta|NAdam|RAdam|RMSprop|ASGD|LBFGS)"
    r"\.(step|zero_grad)|record_param_comms|detach"
    r"|## process_group:init ##|## (Forward|Backward|Optimizer|Benchmark|Warmup) ##"
    r"|autograd::engine::evaluate_function: (torch::autograd::\w+|[A-Z]\w{0,60}Backward\d+)"
    r"|[A-Z]\w{0,60}Backward\d+|torch::autograd::\w+|(gloo|nccl):\w+"
    r"|DistributedDataParallel\.(forward|backward)|enumerate\(DataLoader\)#_\w+\.__next__"
)
#: What stands in an operator's schema beside its name is public if the name is.
_SCHEMA = re.compile(r"([A-Za-z_]\w*)::")
#: Texts among arguments that say nothing of anybody.
_WORD = re.compile(
    r"<\w+>|-?inf|-?nan|cpu|cuda(:\d{1,4})?|none|mean|sum|trunc|floor|tanh|zeros|linear|bilinear|nearest|\d{1,20}"
    r"|all_?reduce\w*|all_?gather\w*|_?all_?to_?all\w*|all_?to_?allv?|reduce_?scatter\w*|_\w*_base|broadcast\w*"
    r"|reduce|gather|scatter|send|recv|barrier|wait|init|default_pg|\[[-\d, ]*\]|True|False|",
    re.IGNORECASE,
)
_DEVICE_WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "cuda_sync",
                          "Trace", "overhead", "ac2g", "fwdbwd", "hip_runtime"})  # fmt: skip


class Names:
    """Hashes of one trace; ``num_hashed`` counts the different names that were hashed."""

    def __init__(self, salt: str) -> None:
        self._salt = salt
        self._known: dict[str, str] = {}

    @property
    def num_hashed(self) -> int:
        """How many different names were hashed."""
        return len(self._known)

    def hashed(self, text: str) -> str:
        """Eight hexadecimal digits in place of a text."""
        if text not in self._known:
            digest = hashlib.sha256(f"{self._salt}\0{text}".encode("utf-8", "surrogatepass"))
            self._known[text] = digest.hexdigest()[:8]
        return self._known[text]

    def operator(self, name: str) -> str:
        """An operator's or label's name; of one that is not public, its kind and a hash."""
        if _STANDARD.fullmatch(name):
            return name
        if name.startswith(_EVALUATE):
            return _EVALUATE + self.operator(name.removeprefix(_EVALUATE))
        match = _OPERATOR.fullmatch(name)
        if match is not None and match[1] in _PUBLIC:
            return name
        if match is not None:
            return f"x{self.hashed(match[1])}::x{self.hashed(match[2])}"
        optimizer = re.fullmatch(r"(Optimizer\.\w{1,20}#)(.{1,100})\.(step|zero_grad)", name)
        if optimizer is not None:
            return f"{optimizer[1]}x{self.hashed(optimizer[2])}.{optimizer[3]}"
        if name.startswith("nn.Module: "):
            return f"nn.Module: {self.hashed(name)}"
        marks = "## {} ##" if name.startswith("## ") else "{}"
        suffix = "Backward" if re.fullmatch(r"\w+Backward\d*", name) else ""
        return marks.format(f"x{self.hashed(name)}{suffix}")

    def event(self, name: str, category: str) -> str:
        """An event's name; kernels of libraries stay, those of others keep what tells their kind."""
        if category in _DEVICE_WORK:
            return name if _is_library_kernel(name, category) else f"kernel_{self.hashed(name)}"
        return self.operator(name)

    def schema(self, text: str) -> str:
        """An operator's schema; the names of one that is not public are hashed as in its calls."""
        match = _SCHEMA.match(text)
        if not text or (match is not None and match[1] in _PUBLIC):
            return text
        name, bracket, rest = text.partition("(")
        base, dot, overload = name.partition(".")
        return f"{self.operator(base)}{dot}{overload}{bracket}{self._arguments(rest)}" if bracket else ""

    def _arguments(self, text: str) -> str:
        """Types stay, names of arguments become their places."""
        count = iter(range(10_000))
        return re.sub(r"(?<=[\])?!a-z] )([a-z_]\w*)(?=[,)=])", lambda _: f"a{next(count)}", text)

    def values(self, value: Any) -> Any:
        """Arguments: numbers stay, texts that could be anybody's words are hashed."""
        if isinstance(value, list):
            return [self.values(item) for item in value]
        if isinstance(value, str) and not _WORD.fullmatch(value):
            return f"x{self.hashed(value)}"
        return value

    def groups(self, value: Any) -> Any:
        """The inputs of a list of process groups: one text of JSON, whose descriptions are hashed."""
        if not isinstance(value, dict) or not isinstance(value.get("values"), list):
            return value
        return {**value, "values": [self._group_text(one) for one in value["values"]]}

    def _group_text(self, text: Any) -> Any:
        found = json_or_none(text) if isinstance(text, str) else None
        if not isinstance(found, list):
            return self.values(text)
        return json.dumps([self._group(one) for one in found if isinstance(one, dict)])

    def _group(self, group: Mapping[str, Any]) -> dict[str, Any]:
        description = str(group.get("pg_desc", ""))
        return {**group, "pg_desc": self.values(description)}

    def metadata(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """A line that names a process or thread: its number stays, its name becomes a hash."""
        arguments = event.get("args")
        kept = dict(arguments) if isinstance(arguments, dict) else {}
        for key in ("name", "labels"):
            if key in kept:
                kept[key] = self._thread(str(kept[key]))
        return {**{k: event[k] for k in ("ph", "name", "pid", "tid", "ts") if k in event}, "args": kept}

    def _thread(self, name: str) -> str:
        is_plain = re.fullmatch(r"(stream|thread|GPU|CPU|python) ?[\d ()]*(python)?[\d ()]*", name)
        return name if is_plain else self.hashed(name)

    def plain(self, value: Any) -> Any:
        """What stands at a file's top: host names and other keys that tell where it was are dropped."""
        if isinstance(value, dict):
            return {
                key: self.values(item) if key == "pg_desc" else self.plain(item)
                for key, item in value.items()
                if not re.search(r"host|user|path|file|cwd|job", str(key), re.IGNORECASE)
            }
        if isinstance(value, list):
            return [self.plain(item) for item in value]
        return value


def _is_library_kernel(name: str, category: str) -> bool:
    """Whether a device event's name is one of PyTorch's or a vendor's."""
    if category != "kernel":
        return True
    return bool(
        re.search(
            r"at::native|at_cuda_detail|cutlass|cublas|cudnn|gemm|nccl|rccl|flash|fmha|wgrad|dgrad|implicit_convolve"
            r"|winograd|cub::|thrust|Memcpy|Memset|embedding|splitKreduce|Cijk_|miopen|triton_(poi|red|per|tem)_fused",
            name,
        )
    )
