"""The memory of forward and backward: the output, the gradients, and a few megabytes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Peak memory of forward and backward beyond what there was before; the peak is reset by the system.
MEASURE = """
import sys
from pathlib import Path
import torch
import gridsample

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))

def call(mode, image, grid, upstream):
    out = gridsample.grid_sample(image, grid, mode, "border")
    return out, *torch.autograd.grad(out, (image, grid), upstream)

def inputs(kind, layout, items, channels, *spatial):
    kind = getattr(torch, kind)
    wide = torch.promote_types(kind, torch.float32)
    image = torch.rand(items, channels, *spatial, dtype=kind)
    grid = torch.rand(items, *spatial, len(spatial), dtype=wide) * 2.2 - 1.1
    upstream = torch.rand(items, channels, *spatial, dtype=kind)
    if layout == "last":
        image = image.contiguous(memory_format=torch.channels_last)
        upstream = upstream.contiguous(memory_format=torch.channels_last)
    return image.requires_grad_(), grid.requires_grad_(), upstream

def measure(shape, mode, kind, layout, threads):
    torch.set_num_threads(int(threads))
    shape = [int(n) for n in shape.split("x")]
    call(mode, *inputs(kind, layout, *shape))  # compiles, loads, and starts threads
    tensors = inputs(kind, layout, *shape)
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    results = call(mode, *tensors)
    return status("VmHWM") - before - sum(t.numel() * t.element_size() for t in results)

for case in sys.argv[1:]:
    print(case, measure(*case.split()) / 1e6)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is reset by a file of Linux's")
@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(["1x3x1024x1024 bilinear float32 first 1"], id="one"),
        # One process for all: it takes longer to import torch than to measure.
        pytest.param(
            [
                "4x32x128x128 bicubic float32 last 2",
                "1x1x96x96x96 bilinear float32 first 2",
                "1x3x1024x1024 bilinear float16 first 1",
                "8x64x128x128 bilinear bfloat16 last 2",
            ],
            id="several",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_peak_memory_is_output_and_gradients(cases: list[str]) -> None:
    environment = {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "MALLOC_MMAP_THRESHOLD_": "65536",  # return freed memory to the system
    }
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *cases],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if "clear_refs" in done.stderr and not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("the peak cannot be reset here")
    assert done.returncode == 0, done.stderr
    found = [line.rpartition(" ") for line in done.stdout.splitlines()]
    assert [case for case, _, _ in found] == cases
    assert all(float(megabytes) <= 8 for _, _, megabytes in found), done.stdout
