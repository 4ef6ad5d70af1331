"""The reader of what an ONNX file says of its interface, beside the package onnx."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import models
import numpy as np
import onnx
import pytest
import tilewright as tw
from onnx import TensorProto, helper
from tilewright import _onnx_info


def interesting() -> onnx.ModelProto:
    proto = models.model([helper.make_node("Add", ["x", "w"], ["y"])],
                         [models.value("x", ["batch", 3, "größe"], TensorProto.FLOAT16), models.value("s", [], 7),
                          models.value("w", [3, 1], TensorProto.FLOAT16)],
                         [models.value("y", ["batch", 3, "größe"], TensorProto.FLOAT16)],
                         {"w": np.ones((3, 1), np.float16)}, license="free", other="ü" * 200)
    proto.graph.input[0].type.tensor_type.shape.dim.add()
    proto.model_version = -1
    proto.domain, proto.doc_string, proto.graph.doc_string = "com.example", "says what", "and this"
    return proto


@pytest.mark.parametrize("as_file", [False, True])
def test_reads_what_onnx_reads(tmp_path: Path, as_file: bool) -> None:
    proto = interesting()
    source: Any = proto.SerializeToString()
    if as_file:
        onnx.save(proto, tmp_path / "m.onnx")
        source = tmp_path / "m.onnx"
    info = _onnx_info.read(source)
    assert [value.name for value in info.inputs] == ["x", "s"] and info.initializers == {"w"}
    assert info.inputs[0] == _onnx_info.Value("x", "float16", ("batch", 3, "größe", None))
    assert info.inputs[1] == _onnx_info.Value("s", "int64", ()) and info.inputs[1].is_static
    assert not info.inputs[0].is_static
    assert [(value.name, value.shape) for value in info.outputs] == [("y", ("batch", 3, "größe"))]
    assert info.metadata == {"license": "free", "other": "ü" * 200}
    assert (info.producer, info.domain, info.description) == ("tests", "com.example", "says what")
    assert (info.graph_name, info.graph_description) == ("graph", "and this")


def test_every_truncation_is_refused_or_read() -> None:
    content = interesting().SerializeToString()
    refused = 0
    for size in range(1, len(content)):
        try:
            _onnx_info.read(content[:size])
        except tw.ModelError:
            refused += 1
    assert refused > len(content) * 0.9


def test_other_files(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "text").write_text("root:x:0:0:root:/root:/bin/bash\n" * 9)
    for name in ("empty", "text"):
        with pytest.raises(tw.ModelError, match="not an ONNX model, or truncated"):
            _onnx_info.read(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        _onnx_info.read(tmp_path / "nowhere")
