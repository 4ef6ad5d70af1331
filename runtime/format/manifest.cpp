#include "runtime/format/manifest.h"

#include <iterator>

#include "runtime/format/json_object.h"

namespace tw::format {
namespace {

constexpr std::string_view kPlaceNames[] = {"arena", "weights", "input", "output", "error"};  // indexed by Place

Json write(const TensorSpec& spec) {
  return {{"name", spec.name}, {"dtype", std::string(name_of(spec.dtype))}, {"shape", spec.shape}};
}

Json write(const Kernel& kernel) {
  return {{"name", kernel.name}, {"section", kernel.section}, {"offset", kernel.offset}, {"bytes", kernel.bytes}};
}

Json write(const Buffer& buffer) {
  return {{"place", std::string(kPlaceNames[static_cast<size_t>(buffer.place)])},
          {"index", buffer.index},
          {"offset", buffer.offset},
          {"bytes", buffer.bytes},
          {"name", buffer.name}};
}

Json write(const CpuStep& step) {
  return {
      {"kernel", step.kernel}, {"args", step.args}, {"tiles", step.tiles}, {"after", step.after}, {"name", step.name}};
}

Json write(const Relocation& relocation) {
  return {{"offset", relocation.offset}, {"buffer", relocation.buffer}, {"addend", relocation.addend}};
}

Json write(const TensorMap& map) {
  return {{"offset", map.offset},
          {"buffer", map.buffer},
          {"dtype", name_of(map.dtype)},
          {"shape", map.shape},
          {"box", map.box}};
}

Json write(const CudaStep& step);
Json write(const Target& target);

template <typename T>
Json write_list(const std::vector<T>& rows) {
  Json list = Json::array();
  for (const T& row : rows) list.push_back(write(row));
  return list;
}

Json write(const CudaStep& step) {
  if (!step.call.empty()) return {{"call", step.call}, {"operands", step.operands}, {"name", step.name}};
  return {{"kernel", step.kernel},
          {"grid", step.grid},
          {"block", step.block},
          {"shared_bytes", step.shared_bytes},
          {"params", to_hex(step.params)},
          {"arguments", step.arguments},
          {"relocations", write_list(step.relocations)},
          {"tensor_maps", write_list(step.tensor_maps)},
          {"overlaps", step.overlaps},
          {"name", step.name}};
}

Json write(const Entry& entry, TargetKind kind) {
  return {{"name", entry.name},
          {"target", entry.target},
          {"inputs", write_list(entry.inputs)},
          {"outputs", write_list(entry.outputs)},
          {"arena_bytes", entry.arena_bytes},
          {"scratch_bytes_per_thread", entry.scratch_bytes_per_thread},
          {"flop", entry.flop},
          {"buffers", write_list(entry.buffers)},
          {"steps", kind == TargetKind::kCpu ? write_list(entry.cpu_steps) : write_list(entry.cuda_steps)}};
}

Json write(const Target& target) {
  return {
      {"kind", target.kind == TargetKind::kCpu ? "cpu" : "cuda"}, {"arch", target.arch}, {"features", target.features}};
}

DataType read_data_type(JsonObject& object, const std::string& what) {
  const std::string dtype = object.text("dtype");
  const auto parsed = parse_data_type(dtype);
  if (!parsed) fail(ErrorCode::kDamaged, "manifest: ", what, ".dtype '", dtype, "' is unknown");
  return *parsed;
}

TensorSpec read_tensor(const Json& value, const std::string& what) {
  JsonObject object(value, what);
  TensorSpec spec;
  spec.name = object.text("name");
  spec.dtype = read_data_type(object, what);
  spec.shape = object.list("shape", read_integer);
  object.finish();
  return spec;
}

Kernel read_kernel(const Json& value, const std::string& what) {
  JsonObject object(value, what);
  Kernel kernel{object.text("name"), object.text("section"), object.integer("offset"), object.integer("bytes")};
  object.finish();
  return kernel;
}

Buffer read_buffer(const Json& value, const std::string& what) {
  JsonObject object(value, what);
  Buffer buffer;
  const std::string place = object.text("place");
  size_t row = 0;
  while (row < std::size(kPlaceNames) && kPlaceNames[row] != place) ++row;
  if (row == std::size(kPlaceNames)) fail(ErrorCode::kDamaged, "manifest: ", what, ".place '", place, "' is unknown");
  buffer.place = static_cast<Place>(row);
  buffer.index = object.integer("index");
  buffer.offset = object.integer("offset");
  buffer.bytes = object.integer("bytes");
  buffer.name = object.text("name");
  object.finish();
  return buffer;
}

CpuStep read_cpu_step(const Json& value, const std::string& what) {
  JsonObject object(value, what);
  CpuStep step;
  step.kernel = object.integer("kernel");
  step.args = object.list("args", read_integer);
  step.tiles = object.integer("tiles");
  step.after = object.boolean("after");
  step.name = object.text("name");
  object.finish();
  return step;
}

Relocation read_relocation(const Json& value, const std::string& what) {
  JsonObject object(value, what);
  Relocation relocation{object.integer("offset"), object.integer("buffer"), object.integer("addend")};
  object.finish();
  return relocation;
}

std::array<int64_t, 3> read_triple(JsonObject& object, const char* key) {
  const std::vector<int64_t> values = object.list(key, read_integer);
  if (values.size() != 3) fail(ErrorCode::kDamaged, "manifest: ", key, " does not have three numbers");
  return {values[0], values[1], values[2]};
}

std::vector<uint8_t> read_hex(const std::string& text, const std::string& what) {
  const auto digit = [&](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    fail(ErrorCode::kDamaged, "manifest: ", what, " is not hexadecimal");
  };
  if (text.size() % 2 != 0) fail(ErrorCode::kDamaged, "manifest: ", what, " has an odd number of digits");
  std::vector<uint8_t> bytes(text.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
  }
  return bytes;
}

TensorMap read_tensor_map(const Json& value, const std::string& what) {
  JsonObject object(value, what);
  TensorMap map;
  map.offset = object.integer("offset");
  map.buffer = object.integer("buffer");
  map.dtype = read_data_type(object, what);
  map.shape = object.list("shape", read_integer);
  map.box = object.list("box", read_integer);
  object.finish();
  return map;
}

CudaStep read_cuda_step(const Json& value, const std::string& what) {
  JsonObject object(value, what);
  CudaStep step;
  if (object.has("call")) {
    step.call = object.text("call");
    if (step.call.empty()) fail(ErrorCode::kDamaged, "manifest: ", what, ".call is empty");
    step.operands = object.list("operands", read_integer);
    step.name = object.text("name");
    object.finish();
    return step;
  }
  step.kernel = object.integer("kernel");
  step.grid = read_triple(object, "grid");
  step.block = read_triple(object, "block");
  step.shared_bytes = object.integer("shared_bytes");
  step.params = read_hex(object.text("params"), what + ".params");
  step.arguments = object.list("arguments", read_integer);
  step.relocations = object.list("relocations", read_relocation);
  step.tensor_maps = object.list("tensor_maps", read_tensor_map);
  step.overlaps = object.boolean("overlaps");
  step.name = object.text("name");
  object.finish();
  return step;
}

Entry read_entry(const Json& value, const std::string& what, TargetKind kind) {
  JsonObject object(value, what);
  Entry entry;
  entry.name = object.text("name");
  entry.target = object.integer("target");
  entry.inputs = object.list("inputs", read_tensor);
  entry.outputs = object.list("outputs", read_tensor);
  entry.arena_bytes = object.integer("arena_bytes");
  entry.scratch_bytes_per_thread = object.integer("scratch_bytes_per_thread");
  entry.flop = object.integer("flop");
  entry.buffers = object.list("buffers", read_buffer);
  if (kind == TargetKind::kCpu) {
    entry.cpu_steps = object.list("steps", read_cpu_step);
  } else {
    entry.cuda_steps = object.list("steps", read_cuda_step);
  }
  object.finish();
  return entry;
}

Target read_target(const Json& value, const std::string& what) {
  JsonObject object(value, what);
  Target target;
  const std::string kind = object.text("kind");
  if (kind != "cpu" && kind != "cuda") fail(ErrorCode::kDamaged, "manifest: ", what, ".kind '", kind, "' is unknown");
  target.kind = kind == "cpu" ? TargetKind::kCpu : TargetKind::kCuda;
  target.arch = object.text("arch");
  target.features = object.list("features", read_text);
  object.finish();
  return target;
}

Manifest read_manifest(const Json& value) {
  JsonObject object(value, "manifest");
  const int64_t version = object.integer("format_version");
  if (version != kFormatVersion) {
    fail(ErrorCode::kIncompatible, "the manifest has format version ", version, ", this runtime reads ",
         kFormatVersion);
  }
  Manifest manifest;
  manifest.producer = object.text("producer");
  manifest.targets = object.list("targets", read_target);
  if (manifest.targets.empty()) fail(ErrorCode::kDamaged, "manifest: there is no target");
  manifest.dtype = read_data_type(object, "manifest");
  manifest.flushes_subnormals = object.boolean("flushes_subnormals");
  manifest.graph_hash = object.text("graph_hash");
  manifest.plan_hash = object.text("plan_hash");
  manifest.notes = object.list("notes", read_text);
  manifest.kernels = object.list("kernels", read_kernel);
  manifest.entries = object.list(
      "entries", [&](const Json& entry, const std::string& what) { return read_entry(entry, what, manifest.kind()); });
  object.finish();
  return manifest;
}

}  // namespace

std::string to_json(const Manifest& manifest) {
  Json entries = Json::array();
  for (const Entry& entry : manifest.entries) entries.push_back(write(entry, manifest.kind()));
  const Json value = {{"format_version", kFormatVersion},
                      {"producer", manifest.producer},
                      {"targets", write_list(manifest.targets)},
                      {"dtype", std::string(name_of(manifest.dtype))},
                      {"flushes_subnormals", manifest.flushes_subnormals},
                      {"graph_hash", manifest.graph_hash},
                      {"plan_hash", manifest.plan_hash},
                      {"notes", manifest.notes},
                      {"kernels", write_list(manifest.kernels)},
                      {"entries", std::move(entries)}};
  // Names come from models; one that is not UTF-8 is written with replacement characters rather than refused.
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Manifest manifest_from_json(std::string_view text) {
  if (text.size() > kMaxManifestBytes)
    fail(ErrorCode::kDamaged, "the manifest has ", text.size(), " bytes, more than 16 MiB");
  const Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) fail(ErrorCode::kDamaged, "the manifest is not JSON");
  Manifest manifest = read_manifest(value);
  // One spelling for each manifest: this also refuses duplicate keys, which the parser drops silently.
  if (to_json(manifest) != text) fail(ErrorCode::kDamaged, "the manifest is not in canonical form");
  return manifest;
}

int64_t tensor_bytes(const TensorSpec& spec) {
  constexpr int64_t kMaxBytes = int64_t{1} << 47;  // the user address space of x86-64
  int64_t bytes = bytes_of(spec.dtype);
  for (const int64_t extent : spec.shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes) || bytes > kMaxBytes) {
      fail(ErrorCode::kDamaged, "manifest: tensor '", spec.name, "' ", shape_text(spec.shape), " is too large");
    }
  }
  return bytes;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t extent : shape) {
    text += text.empty() ? '[' : ',';
    append(text, extent);
  }
  if (text.empty()) return "[]";
  text += ']';
  return text;
}

}  // namespace tw::format
