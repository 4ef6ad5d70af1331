#include "frontend/onnx/metadata.h"

#include <nlohmann/json.hpp>

#include "frontend/onnx/file/model_file.h"

namespace tw::frontend {

std::string metadata_of(std::span<const std::byte> bytes) {
  const onnx::ModelProto model = read_model(bytes);
  using Json = nlohmann::ordered_json;
  Json properties = Json::object();
  for (const auto& property : model.metadata_props()) properties[property.key()] = property.value();
  const Json json = {{"producer_name", model.producer_name()},
                     {"producer_version", model.producer_version()},
                     {"domain", model.domain()},
                     {"description", model.doc_string()},
                     {"graph_name", model.graph().name()},
                     {"graph_description", model.graph().doc_string()},
                     {"version", model.model_version()},
                     {"custom_metadata_map", std::move(properties)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tw::frontend
