#include "driver/artefact/source.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/format/error.h"
#include "support/hash.h"

namespace tw::driver {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "tilewright.source.v2";

// ---- Text, and behind it the bytes of the model and of bound inputs: u64 size of the text, text, bytes.

Json import_json(const frontend::ImportOptions& import, std::string& blobs) {
  Json shapes = Json::object(), dims = Json::object(), constants = Json::array();
  for (const auto& [name, shape] : import.shapes) shapes[name] = shape;
  for (const auto& [name, value] : import.dims) dims[name] = value;
  for (const auto& [name, tensor] : import.constants) {
    const std::vector<std::byte> bytes = tensor.to_bytes();
    constants.push_back({name, to_string(tensor.type.type), tensor.type.shape, bytes.size()});
    blobs.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return {{"shapes", shapes}, {"dims", dims}, {"bounds", import.bounds}, {"constants", constants}};
}

// The next `size` bytes of `rest`, which are then gone.
std::span<const uint8_t> take(std::span<const uint8_t>& rest, size_t size) {
  if (size > rest.size()) throw UserError("it is too short");
  const auto taken = rest.first(size);
  rest = rest.subspan(size);
  return taken;
}

DataType type_of(const Json& name) {
  const std::optional<DataType> type = parse_data_type(name.get<std::string>());
  if (!type || type->is_vector()) throw UserError("'{}' is not an element type", name.get<std::string>());
  return *type;
}

frontend::ImportOptions read_import(const Json& json, std::span<const uint8_t>& rest) {
  frontend::ImportOptions import;
  json.at("shapes").get_to(import.shapes);
  json.at("dims").get_to(import.dims);
  json.at("bounds").get_to(import.bounds);
  import.counts_rows = true;
  for (const Json& row : json.at("constants")) {
    const TensorType type{type_of(row.at(1)), row.at(2).get<Shape>()};
    const auto bytes = take(rest, row.at(3).get<size_t>());
    if (static_cast<int64_t>(bytes.size()) != type.bytes()) throw UserError("a bound input does not fit its type");
    import.constants[row.at(0).get<std::string>()] = graph::RefTensor::from_bytes(type, std::as_bytes(bytes));
  }
  return import;
}

Json entry_json(const SourceEntry& entry, std::vector<std::string>& outlines) {
  auto outline = std::ranges::find(outlines, entry.outline);
  if (outline == outlines.end()) outline = outlines.insert(outline, entry.outline);
  Json layouts = Json::array();
  for (const Layout& layout : entry.layouts) layouts.push_back(to_string(layout));
  return {{"outline", outline - outlines.begin()}, {"layouts", layouts}, {"renamed", entry.renamed}};
}

SourceEntry read_entry(const Json& json, const std::vector<std::string>& outlines) {
  SourceEntry entry{outlines.at(json.at("outline").get<size_t>()), {}, {}};
  for (const Json& text : json.at("layouts")) entry.layouts.push_back(parse_layout(text.get<std::string>()));
  json.at("renamed").get_to(entry.renamed);
  return entry;
}

Json to_json(const Source& source, std::string& blobs) {
  Json imports = Json::array(), entries = Json::array(), states = Json::array();
  for (const StatePair& pair : source.options.states) states.push_back({pair.input, pair.output});
  for (const frontend::ImportOptions& import : source.options.imports) imports.push_back(import_json(import, blobs));
  std::vector<std::string> outlines;
  for (const SourceEntry& entry : source.entries) entries.push_back(entry_json(entry, outlines));
  return {{"schema", kSchema},
          {"model_bytes", source.skeleton.size()},
          {"model", source.model},
          {"imports", imports},
          {"least", source.options.least},
          {"weights", source.weights},
          {"infinite", source.infinite},
          {"precision", static_cast<int>(source.options.precision)},
          {"dtype", to_string(source.options.dtype)},
          {"disabled_passes", source.options.disabled_passes},
          {"disabled_families", source.options.disabled_families},
          {"all_optional_off", source.options.all_optional_off},
          {"states", states},
          {"outlines", outlines},
          {"entries", entries}};
}

Source read_source(const Json& json, std::span<const uint8_t> rest) {
  if (json.at("schema") != kSchema) throw UserError("it is of another form");
  Source source;
  const auto model = take(rest, json.at("model_bytes").get<size_t>());
  source.skeleton.assign(model.begin(), model.end());
  source.model = json.value("model", "");
  source.options.imports.clear();
  for (const Json& import : json.at("imports")) source.options.imports.push_back(read_import(import, rest));
  json.at("least").get_to(source.options.least);
  json.at("weights").get_to(source.weights);
  json.at("infinite").get_to(source.infinite);
  source.options.precision = static_cast<Precision>(json.at("precision").get<int>());
  source.options.dtype = type_of(json.at("dtype"));
  json.at("disabled_passes").get_to(source.options.disabled_passes);
  json.at("disabled_families").get_to(source.options.disabled_families);
  json.at("all_optional_off").get_to(source.options.all_optional_off);
  for (const Json& pair : json.at("states"))
    source.options.states.push_back({pair.at(0).get<std::string>(), pair.at(1).get<std::string>()});
  const auto outlines = json.at("outlines").get<std::vector<std::string>>();
  for (const Json& entry : json.at("entries")) source.entries.push_back(read_entry(entry, outlines));
  return source;
}

}  // namespace

std::map<std::string, std::string> renamed_constants(const graph::Graph& ungrouped, const graph::Graph& groups) {
  std::map<std::string, std::string> renamed;
  std::map<std::pair<const void*, Shape>, std::string> before;
  std::set<std::string> names;
  for (const graph::Value& value : ungrouped.values) {
    if (!value.is_constant()) continue;
    before.emplace(std::pair(value.constant.get(), value.type.shape), value.name);
    names.insert(value.name);
  }
  for (const graph::Value& value : groups.values) {
    if (!value.is_constant() || names.contains(value.name)) continue;
    const auto found = before.find({value.constant.get(), value.type.shape});
    TW_CHECK(found != before.end(), "constant '{}' came when groups were formed", value.name);
    renamed[value.name] = found->second;
  }
  return renamed;
}

std::string joined_outlines(const std::map<std::string, std::string>& outlines) {
  std::string all;
  for (const auto& [prefix, outline] : outlines) all += outline;
  return all;
}

std::string model_hash(const frontend::ImportResult& model) {
  std::string hashes = content_hash(model.skeleton);
  for (const graph::Bytes& weight : model.elements) hashes += content_hash(*weight);
  return content_hash(hashes);
}

CompileOptions options_of(const Source& source) {
  CompileOptions options;
  static_cast<ModelOptions&>(options) = source.options;
  return options;
}

LargeArray to_bytes(const Source& source) {
  std::string blobs;
  const std::string text = to_json(source, blobs).dump(-1, ' ', false, Json::error_handler_t::replace);
  const uint64_t size = text.size();
  LargeArray bytes(sizeof(size));
  std::memcpy(bytes.data(), &size, sizeof(size));
  for (const std::string* part : {&text, &source.skeleton, &std::as_const(blobs)})
    bytes.insert(bytes.end(), part->begin(), part->end());
  return bytes;
}

Source parse_source(std::span<const uint8_t> bytes) {
  try {
    uint64_t size = 0;
    const auto head = take(bytes, sizeof(size));
    std::memcpy(&size, head.data(), sizeof(size));
    const auto text = take(bytes, size);
    return read_source(Json::parse(text.begin(), text.end()), bytes);
  } catch (const std::exception& error) {  // checksums hold: somebody made it
    throw format::Error(format::ErrorCode::kDamaged, fmt::format("section 'source' is damaged: {}", error.what()));
  }
}

}  // namespace tw::driver
