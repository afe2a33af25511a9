"""One model on several devices: where does a training step of Llama 3.2 1B run how fast, and does it fit?"""

from __future__ import annotations

import perfcast


def main() -> None:
    print(f"{'device':16} {'tokens/s':>9} {'MFU':>6} {'peak GiB':>9} {'fits':>5}")
    for device in ("rtx-4090", "a100-sxm-80gb", "h100-sxm", "mi300x", "b200"):
        forecast = perfcast.predict(
            "llama3.2-1b", device, mode="train", batch_size=4, sequence_length=2048, dtype="bf16"
        )
        tokens_per_second = forecast.samples_per_second * 2048
        peak = forecast.memory.peak_bytes / 2**30
        fits = "yes" if forecast.memory.fits else "no"
        print(f"{device:16} {tokens_per_second:9.0f} {forecast.mfu:6.1%} {peak:9.1f} {fits:>5}")


if __name__ == "__main__":
    main()
