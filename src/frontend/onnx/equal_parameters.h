// Parameters that an exporter wrote once because they are equal.
#pragma once
#include <onnx-ml.pb.h>

namespace tw::frontend {

/// torch's exporter writes one of several tensors of equal elements, the scales of fresh norms say, and the others as
/// its Identity; what a model really shares it reads by one name. Each such Identity of an f32 initializer of the main
/// graph becomes an initializer of its own name, with the same elements: training makes them differ. An initializer
/// that Identity nodes alone read is one that is shared, as other exporters write it, and stays so.
void part_equal_parameters(onnx::GraphProto& graph);

}  // namespace tw::frontend
