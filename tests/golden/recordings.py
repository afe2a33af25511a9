"""Recorded steps: what is found in them, and forecasts from them. Their times are made up."""

from __future__ import annotations

from golden.ask import Case
from golden.figures import fingerprint, numbers

_BOTH = "@rank0.json @rank1.json"

CASES = {
    name: Case(f"trace {command} --json -", numbers)
    for name, command in {
        "info": f"info {_BOTH} @before.json",
        "explained": f"explain {_BOTH}",
        "forecast, as it was": f"forecast {_BOTH}",
        "forecast, another device": f"forecast {_BOTH} --device h200-sxm --cost-model roofline",
        "forecast, another device, learned": f"forecast {_BOTH} --device a100-sxm-80gb",
        "forecast, another batch": (
            f"forecast {_BOTH} --recorded-batch-size 512 --batch-size 2048 --cost-model roofline"
        ),
        "forecast, more ranks": f"forecast {_BOTH} --cluster dgx-h100:8 --world-size 8",
        "forecast, faster products": f"forecast {_BOTH} --what-if speed:gemm=2",
        "forecast, slow host and links": f"forecast {_BOTH} --what-if host=0.5 --what-if communication=0.5",
        "forecast, overlapped": f"forecast {_BOTH} --what-if overlap",
        "forecast, one graph": f"forecast {_BOTH} --what-if graphs",
        "forecast, second step alone": f"forecast {_BOTH} --steps 2:2",
        "chakra": f"chakra {_BOTH} --out @chakra",
        "astra-sim": f"chakra {_BOTH} --out @astra --astra-sim",
    }.items()
}
CASES["compared"] = Case("trace explain @rank1.json --compare @before.json --json -", fingerprint)
