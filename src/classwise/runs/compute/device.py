"""The device of all computations, its name and its threads."""

import os
import platform
import re
import timeit
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from classwise.core.errors import UserError


def device() -> torch.device:
    """Return the device: CLASSWISE_DEVICE, else the first CUDA GPU, else the CPU."""
    name = os.environ.get("CLASSWISE_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise UserError(f"CLASSWISE_DEVICE={name!r} is no device; write cpu, cuda or cuda:1")
    chosen = torch.device(name)
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"CLASSWISE_DEVICE={name!r}: torch has no CUDA GPU here; write cpu, or leave it out")
    if chosen.type == "cuda" and chosen.index is not None and chosen.index >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise UserError(f"CLASSWISE_DEVICE={name!r}: this machine has {count} CUDA GPUs; write cuda:0 to cuda:{count - 1}")
    return chosen


def name_and_threads() -> tuple[str, int]:
    """Return the name of the device and the number of CPU threads, the attributes `device` and `threads` of results."""
    here = device()
    return (torch.cuda.get_device_name(here) if here.type == "cuda" else _processor()), torch.get_num_threads()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one CPU thread until the block ends, so that results do not depend on the number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def bfloat16_warning(precisions: Collection[str]) -> str:
    """Return in a sentence how slowly this processor emulates bfloat16; "" where that is none of the precisions, or on a GPU."""
    if "bfloat16" not in precisions or device().type == "cuda":
        return ""
    factor = _seconds_of_convolution(torch.bfloat16) / _seconds_of_convolution(torch.float32)
    if factor < 1.5:
        return ""
    advice = "request precision='float32', or use a GPU or a processor with AMX or AVX-512-BF16"
    return f"some of this requests bfloat16, which this processor emulates: {factor:.0f} times slower than float32; {advice}"


def _seconds_of_convolution(precision: torch.dtype) -> float:
    """Return the least seconds of a convolution of some images, of three tries."""
    layer, x = torch.nn.Conv2d(16, 32, 3).to(dtype=precision), torch.zeros(16, 16, 32, 32, dtype=precision)
    with torch.no_grad():
        return min(timeit.repeat(lambda: layer(x), number=1, repeat=4)[1:])  # the first one sets up


def warm_up() -> None:
    """Take one step of a tiny network: the first step of a process loads libraries, which no timing should include."""
    layer = torch.nn.Linear(1, 1).to(device())
    layer(torch.zeros(1, 1, device=device())).sum().backward()
    torch.optim.SGD(layer.parameters(), lr=0.0).step()
