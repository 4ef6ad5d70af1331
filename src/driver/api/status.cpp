#include "driver/api/status.h"

#include <new>
#include <nlohmann/json.hpp>

#include "driver/failure.h"
#include "driver/option_table.h"
#include "frontend/onnx/shape_binding.h"

namespace tw::driver::api {
namespace {

using Json = nlohmann::ordered_json;

TwCompilerStatus& out_of_memory() {
  static TwCompilerStatus status{TW_COMPILER_EXHAUSTED, "out of memory", R"({"type":"exhausted"})"};
  return status;
}

Json to_json(const frontend::UnsupportedItem& item) {
  return {{"operator", item.op},
          {"domain", item.domain},
          {"opset", item.opset},
          {"reason", item.reason},
          {"nodes", item.nodes}};
}

/// The model's own extents: numbers, names of dimensions, or null.
Json to_json(const frontend::DeclaredType& type) {
  Json extents = Json::array();
  for (size_t d = 0; d < type.dims->size(); ++d) {
    if ((*type.dims)[d] >= 0) {
      extents.push_back((*type.dims)[d]);
    } else {
      extents.push_back(type.symbols[d].empty() ? Json() : Json(type.symbols[d]));
    }
  }
  return extents;
}

std::string details_of(const std::exception& error, std::string_view type) {
  Json details = {{"type", type}};
  if (type == "unsupported") details["operators"] = Json::array();
  if (const auto* model = dynamic_cast<const frontend::UnsupportedModel*>(&error)) {
    std::set<std::string> operators;
    details["items"] = Json::array();
    for (const frontend::UnsupportedItem& item : model->items()) {
      if (!item.op.empty()) operators.insert(item.domain.empty() ? item.op : item.domain + "::" + item.op);
      details["items"].push_back(to_json(item));
    }
    details["operators"] = operators;
  }
  if (const auto* shape = dynamic_cast<const frontend::ShapeContradiction*>(&error)) {
    details["given"] = {{shape->input(), shape->given()}};
    details["declared"] = {{shape->input(), to_json(shape->declared())}};
  }
  if (const auto* node = dynamic_cast<const NodeError*>(&error)) details["node"] = node->node();
  return details.dump(-1, ' ', false, Json::error_handler_t::replace);  // names in models need not be UTF-8
}

}  // namespace

std::string in_words_of_programs(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t dashes = std::min(text.find("--"), text.size());
    const size_t from = std::min(dashes + 2, text.size());
    const size_t end = std::min(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", from), text.size());
    const std::string_view name = text.substr(from, end - from);
    out += text.substr(0, dashes);
    out += find_option(compile_options(), name) != nullptr ? spelled(name) : text.substr(dashes, end - dashes);
    text.remove_prefix(end);
  }
  return out;
}

TwCompilerStatus* status_of(const std::exception& error) noexcept {
  try {
    const Failure failure = failure_of(error);
    if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return &out_of_memory();
    return new TwCompilerStatus{static_cast<TwCompilerErrorKind>(failure.exit_code), in_words_of_programs(error.what()),
                                details_of(error, failure.type)};
  } catch (const std::exception&) {
    return &out_of_memory();
  }
}

void free_status(TwCompilerStatus* status) {
  if (status != &out_of_memory()) delete status;
}

}  // namespace tw::driver::api
