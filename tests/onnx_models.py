"""Helpers of ONNX tests: writing a model, and running the file."""

from __future__ import annotations

from typing import Any

import onnx
import onnxruntime
import torch
from torch import Tensor, nn


def export(model: Any, arguments: tuple[Tensor, ...] = (), **options: Any) -> onnx.ModelProto:
    model = model.eval() if isinstance(model, nn.Module) else model
    program = torch.onnx.export(model, arguments, dynamo=True, verbose=False, **options)
    onnx.checker.check_model(program.model_proto, full_check=True)
    return program.model_proto


def run(model: onnx.ModelProto, arguments: tuple[Tensor, ...]) -> list[Tensor]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # several wait for work without a pause
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [entry.name for entry in session.get_inputs()]
    results = session.run(None, dict(zip(names, (t.numpy() for t in arguments), strict=True)))
    return [torch.from_numpy(result) for result in results]


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]
