"""Processes that torch starts: they compute correct results, and exit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

TESTS = Path(__file__).parents[1]
SECONDS = 300  # more than a slow machine needs; then the process and its children are killed


def run(*arguments: str) -> None:
    path = os.pathsep.join([str(TESTS), *sys.path, os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-m", "processes", *arguments],
        env={**os.environ, "PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        pytest.fail(f"{arguments} did not end in {SECONDS} s: {process.communicate()[0]}")
    assert process.returncode == 0 and output.endswith("done\n"), output


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_data_loader_workers_can_sample(start: str) -> None:
    run("loader", start)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_processes_can_sample_shared_memory(start: str) -> None:
    run("shared", start)


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="torch has no gloo")
def test_replicas_learn_the_same_as_a_single_process() -> None:
    run("replicas", "spawn")
