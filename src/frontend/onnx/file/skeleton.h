// Models without the elements of their weights, and weights without their model.
#pragma once
#include <onnx-ml.pb.h>

#include <set>
#include <string>

#include "frontend/onnx/file/tensor_data.h"

namespace tw::frontend {

/// The bytes of `model` with all its data inside, but without the elements of the initializers of its main graph that
/// `weights` names and of those that no node needs. Takes them out of `model`, too. Empty where protobuf cannot hold
/// the result in one message. Throws what read_tensor throws.
std::string take_skeleton(onnx::ModelProto& model, const std::set<std::string>& weights,
                          const std::set<std::string>& needed, const ExternalData& files);

}  // namespace tw::frontend
