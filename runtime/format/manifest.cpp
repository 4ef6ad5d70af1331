#include "runtime/format/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "runtime/format/error.h"

namespace tw::format {
namespace {

using Json = nlohmann::json;

// Numbers in a manifest are at most this: sums of a few of them cannot overflow int64.
constexpr int64_t kMaxNumber = int64_t{1} << 60;

// ---- What the text holds: a key and the member with its value, for reading and writing alike.

template <typename Object, typename Member>
struct Field {
  const char* key;
  Member Object::*member;
};

template <typename Enum>
constexpr auto kNames = nullptr;
template <>
constexpr auto kNames<TargetKind> = std::array<std::string_view, 2>{"cpu", "cuda"};
template <>
constexpr auto kNames<Place> =
    std::array<std::string_view, 8>{"arena", "weights", "input", "output", "error", "state", "next_state", "extent"};

template <typename Object>
constexpr auto kFields = nullptr;
template <>
constexpr auto kFields<ManifestTarget> = std::tuple(Field{"kind", &ManifestTarget::kind},
                                                    Field{"arch", &ManifestTarget::arch},
                                                    Field{"features", &ManifestTarget::features});
template <>
constexpr auto kFields<Kernel> = std::tuple(Field{"name", &Kernel::name}, Field{"section", &Kernel::section},
                                            Field{"offset", &Kernel::offset}, Field{"bytes", &Kernel::bytes});
template <>
constexpr auto kFields<TensorSpec> = std::tuple(Field{"name", &TensorSpec::name}, Field{"dtype", &TensorSpec::dtype},
                                                Field{"shape", &TensorSpec::shape});
template <>
constexpr auto kFields<StatePart> = std::tuple(Field{"tensor", &StatePart::tensor}, Field{"order", &StatePart::order});
template <>
constexpr auto kFields<State> = std::tuple(Field{"tensor", &State::tensor}, Field{"next", &State::next},
                                           Field{"offset", &State::offset}, Field{"order", &State::order},
                                           Field{"parts", &State::parts});
template <>
constexpr auto kFields<Buffer> = std::tuple(Field{"place", &Buffer::place}, Field{"index", &Buffer::index},
                                            Field{"offset", &Buffer::offset}, Field{"bytes", &Buffer::bytes},
                                            Field{"name", &Buffer::name});
constexpr auto kMovingFields =
    std::tuple_cat(kFields<Buffer>, std::tuple(Field{"moves", &Buffer::moves}, Field{"initial", &Buffer::initial}));
template <>
constexpr auto kFields<Repeat> = std::tuple(Field{"first", &Repeat::first}, Field{"count", &Repeat::count},
                                            Field{"turns", &Repeat::turns});
template <>
constexpr auto kFields<Move> = std::tuple(Field{"repeat", &Move::repeat}, Field{"bytes", &Move::bytes},
                                          Field{"start", &Move::start}, Field{"step", &Move::step},
                                          Field{"period", &Move::period});
template <>
constexpr auto kFields<CpuStep> = std::tuple(Field{"kernel", &CpuStep::kernel}, Field{"args", &CpuStep::args},
                                             Field{"tiles", &CpuStep::tiles}, Field{"after", &CpuStep::after},
                                             Field{"name", &CpuStep::name});
template <>
constexpr auto kFields<Relocation> = std::tuple(Field{"offset", &Relocation::offset},
                                                Field{"buffer", &Relocation::buffer},
                                                Field{"addend", &Relocation::addend});
template <>
constexpr auto kFields<Windows> = std::tuple(Field{"extents", &Windows::extents}, Field{"steps", &Windows::steps},
                                             Field{"before", &Windows::before});
template <>
constexpr auto kFields<TensorMap> = std::tuple(Field{"offset", &TensorMap::offset}, Field{"buffer", &TensorMap::buffer},
                                               Field{"dtype", &TensorMap::dtype}, Field{"shape", &TensorMap::shape},
                                               Field{"box", &TensorMap::box}, Field{"windows", &TensorMap::windows});
template <>
constexpr auto kFields<Zeros> = std::tuple(Field{"buffer", &Zeros::buffer}, Field{"offset", &Zeros::offset},
                                           Field{"bytes", &Zeros::bytes});
template <>
constexpr auto kFields<CudaStep> =
    std::tuple(Field{"kernel", &CudaStep::kernel}, Field{"grid", &CudaStep::grid}, Field{"block", &CudaStep::block},
               Field{"shared_bytes", &CudaStep::shared_bytes}, Field{"params", &CudaStep::params},
               Field{"arguments", &CudaStep::arguments}, Field{"relocations", &CudaStep::relocations},
               Field{"tensor_maps", &CudaStep::tensor_maps}, Field{"after", &CudaStep::after},
               Field{"overlaps", &CudaStep::overlaps}, Field{"name", &CudaStep::name});
constexpr auto kCallFields = std::tuple(Field{"call", &CudaStep::call}, Field{"operands", &CudaStep::operands},
                                        Field{"after", &CudaStep::after}, Field{"name", &CudaStep::name});
template <>
constexpr auto kFields<ExtentDim> = std::tuple(Field{"tensor", &ExtentDim::tensor}, Field{"dim", &ExtentDim::dim},
                                               Field{"times", &ExtentDim::times});
template <>
constexpr auto kFields<Extent> = std::tuple(Field{"name", &Extent::name}, Field{"least", &Extent::least},
                                            Field{"bound", &Extent::bound}, Field{"inputs", &Extent::inputs},
                                            Field{"outputs", &Extent::outputs}, Field{"in_parts", &Extent::in_parts});
// The key of the steps is missing: which they are is said by the kind of the target.
template <>
constexpr auto kFields<Entry> = std::tuple(Field{"name", &Entry::name}, Field{"function", &Entry::function},
                                           Field{"target", &Entry::target}, Field{"inputs", &Entry::inputs},
                                           Field{"outputs", &Entry::outputs}, Field{"arena_bytes", &Entry::arena_bytes},
                                           Field{"scratch_bytes_per_thread", &Entry::scratch_bytes_per_thread},
                                           Field{"flop", &Entry::flop}, Field{"buffers", &Entry::buffers},
                                           Field{"repeats", &Entry::repeats});
constexpr auto kCpuEntry =
    std::tuple_cat(kFields<Entry>, std::tuple(Field{"steps", &Entry::cpu_steps}, Field{"extents", &Entry::extents}));
// Up to this version extents were of CPUs only.
constexpr uint32_t kFormatOfCpuExtents = 14;
constexpr auto kOldCudaEntry =
    std::tuple_cat(kFields<Entry>, std::tuple(Field{"steps", &Entry::cuda_steps}, Field{"zeros", &Entry::zeros}));
constexpr auto kCudaEntry = std::tuple_cat(kOldCudaEntry, std::tuple(Field{"extents", &Entry::extents}));

/// Calls body(fields) with what an entry of such a manifest has.
void with_entry_fields(const Manifest& manifest, const auto& body) {
  if (manifest.kind() == TargetKind::kCpu) return body(kCpuEntry);
  manifest.format_version > kFormatOfCpuExtents ? body(kCudaEntry) : body(kOldCudaEntry);
}
// Without the version and the entries.
template <>
constexpr auto kFields<Manifest> = std::tuple(Field{"producer", &Manifest::producer},
                                              Field{"targets", &Manifest::targets}, Field{"dtype", &Manifest::dtype},
                                              Field{"flushes_subnormals", &Manifest::flushes_subnormals},
                                              Field{"graph_hash", &Manifest::graph_hash},
                                              Field{"plan_hash", &Manifest::plan_hash},
                                              Field{"notes", &Manifest::notes}, Field{"states", &Manifest::states},
                                              Field{"kernels", &Manifest::kernels});

template <typename T>
concept Described = !std::is_null_pointer_v<std::remove_cv_t<decltype(kFields<T>)>>;
template <typename T>
concept List = std::is_same_v<T, std::vector<typename T::value_type>>;

// ---- Writing.

template <typename T>
Json write(const T& value);

template <typename T>
Json write_object(const T& object, const auto& fields) {
  Json written = Json::object();
  std::apply([&](const auto&... field) { ((written[field.key] = write(object.*field.member)), ...); }, fields);
  return written;
}

template <typename T>
Json write_list(const std::vector<T>& rows, const auto& write_row) {
  Json list = Json::array();
  for (const T& row : rows) list.push_back(write_row(row));
  return list;
}

template <typename T>
Json write(const T& value) {
  if constexpr (std::is_same_v<T, DataType>) {
    return name_of(value);
  } else if constexpr (std::is_enum_v<T>) {
    return kNames<T>[static_cast<size_t>(value)];
  } else if constexpr (std::is_same_v<T, std::vector<uint8_t>>) {
    return to_hex(value);
  } else if constexpr (std::is_same_v<T, CudaStep>) {
    return value.call.empty() ? write_object(value, kFields<T>) : write_object(value, kCallFields);
  } else if constexpr (std::is_same_v<T, Buffer>) {
    const bool moves = !value.moves.empty() || !value.initial.empty();
    return moves ? write_object(value, kMovingFields) : write_object(value, kFields<T>);
  } else if constexpr (Described<T>) {
    return write_object(value, kFields<T>);
  } else if constexpr (List<T>) {
    return write_list(value, write<typename T::value_type>);
  } else {
    return value;
  }
}

// ---- Reading: strict. `what` names the value in messages, for example "manifest.entries[0]".

constexpr Require require{"manifest: "};

int64_t read_integer(const Json& value, const std::string& what) {
  // Canonical text spells a non-negative integer without sign or fraction; the parser then stores it as unsigned.
  require(value.is_number_unsigned(), what, " is not a non-negative integer");
  require(value.get<uint64_t>() <= static_cast<uint64_t>(kMaxNumber), what, " is too large");
  return value.get<int64_t>();
}

std::string read_text(const Json& value, const std::string& what) {
  require(value.is_string(), what, " is not a string");
  auto text = value.get<std::string>();
  require(text.find('\0') == std::string::npos, what, " contains a zero byte");
  return text;
}

std::vector<uint8_t> read_hex(const std::string& text, const std::string& what) {
  const auto digit = [&](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    require(c >= 'a' && c <= 'f', what, " is not hexadecimal");
    return c - 'a' + 10;
  };
  require(text.size() % 2 == 0, what, " has an odd number of digits");
  std::vector<uint8_t> bytes(text.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
  }
  return bytes;
}

template <typename T>
void read(const Json& value, const std::string& what, T& out);

template <typename T>
void read_object(const Json& value, const std::string& what, T& out, const auto& fields) {
  require(value.is_object(), what, " is not an object");
  const auto read_field = [&](const auto& field) {
    const auto found = value.find(field.key);
    require(found != value.end(), what, ".", field.key, " is missing");
    read(*found, join(what, ".", field.key), out.*field.member);
  };
  std::apply([&](const auto&... field) { (read_field(field), ...); }, fields);
  for (const auto& item : value.items()) {
    const bool known = std::apply([&](const auto&... field) { return ((item.key() == field.key) || ...); }, fields);
    require(known, what, " has the unknown key '", item.key(), "'");
  }
}

template <typename T>
void read_list(const Json& value, const std::string& what, std::vector<T>& out, const auto& read_row) {
  require(value.is_array(), what, " is not a list");
  out.reserve(value.size());
  for (const Json& row : value) {
    const std::string name = join(what, "[", out.size(), "]");
    read_row(row, name, out.emplace_back());
  }
}

template <typename T>
void read_name(const std::string& name, const std::string& what, T& out) {
  const auto row = std::find(kNames<T>.begin(), kNames<T>.end(), name);
  require(row != kNames<T>.end(), what, " '", name, "' is unknown");
  out = static_cast<T>(row - kNames<T>.begin());
}

void read_name(const std::string& name, const std::string& what, DataType& out) {
  const auto parsed = parse_data_type(name);
  require(parsed.has_value(), what, " '", name, "' is unknown");
  out = *parsed;
}

template <typename T>
void read(const Json& value, const std::string& what, T& out) {
  if constexpr (std::is_same_v<T, bool>) {
    require(value.is_boolean(), what, " is not true or false");
    out = value.get<bool>();
  } else if constexpr (std::is_same_v<T, int64_t>) {
    out = read_integer(value, what);
  } else if constexpr (std::is_same_v<T, std::string>) {
    out = read_text(value, what);
  } else if constexpr (std::is_enum_v<T>) {
    read_name(read_text(value, what), what, out);
  } else if constexpr (std::is_same_v<T, std::vector<uint8_t>>) {
    out = read_hex(read_text(value, what), what);
  } else if constexpr (std::is_same_v<T, std::array<int64_t, 3>>) {
    std::vector<int64_t> numbers;
    read(value, what, numbers);
    require(numbers.size() == out.size(), what, " does not have three numbers");
    std::copy(numbers.begin(), numbers.end(), out.begin());
  } else if constexpr (std::is_same_v<T, CudaStep>) {
    value.contains("call") ? read_object(value, what, out, kCallFields) : read_object(value, what, out, kFields<T>);
  } else if constexpr (std::is_same_v<T, Buffer>) {
    value.contains("moves") ? read_object(value, what, out, kMovingFields) : read_object(value, what, out, kFields<T>);
  } else if constexpr (Described<T>) {
    read_object(value, what, out, kFields<T>);
  } else {
    read_list(value, what, out, read<typename T::value_type>);
  }
}

// The value of a key of the manifest, which is then gone.
Json take(Json& manifest, const char* key) {
  require(manifest.is_object() && manifest.contains(key), "manifest.", key, " is missing");
  Json value = std::move(manifest[key]);
  manifest.erase(key);
  return value;
}

Manifest read_manifest(Json value) {
  const int64_t version = read_integer(take(value, "format_version"), "manifest.format_version");
  require_readable("the manifest", version);
  const Json entries = take(value, "entries");
  Manifest manifest{.format_version = static_cast<uint32_t>(version), .producer = {}};
  read(value, "manifest", manifest);
  require(!manifest.targets.empty(), "there is no target");
  with_entry_fields(manifest, [&](const auto& fields) {
    read_list(entries, "manifest.entries", manifest.entries,
              [&](const Json& row, const std::string& what, Entry& entry) { read_object(row, what, entry, fields); });
  });
  return manifest;
}

}  // namespace

void require_readable(std::string_view what, int64_t version) {
  if (version >= kOldestFormat && version <= kFormatVersion) return;
  fail(ErrorCode::kIncompatible, what, " has format version ", version, ", this runtime reads ", kOldestFormat, " to ",
       kFormatVersion, ": ", version < kOldestFormat ? "compile the model again" : "take a newer runtime");
}

std::string to_json(const Manifest& manifest) {
  Json value = write(manifest);
  value["format_version"] = manifest.format_version;
  with_entry_fields(manifest, [&](const auto& fields) {
    value["entries"] = write_list(manifest.entries, [&](const Entry& entry) { return write_object(entry, fields); });
  });
  // Names come from models; one that is not UTF-8 is written with replacement characters rather than refused.
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_json(const CudaStep& step) { return write(step).dump(-1, ' ', false, Json::error_handler_t::replace); }

Manifest manifest_from_json(std::string_view text) {
  if (text.size() > kMaxManifestBytes)
    fail(ErrorCode::kDamaged, "the manifest has ", text.size(), " bytes, more than 16 MiB");
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) fail(ErrorCode::kDamaged, "the manifest is not JSON");
  Manifest manifest = read_manifest(std::move(value));
  // One spelling for each manifest: this also refuses duplicate keys, which the parser drops silently.
  if (to_json(manifest) != text) fail(ErrorCode::kDamaged, "the manifest is not in canonical form");
  return manifest;
}

std::vector<Function> functions_of(const Manifest& manifest) {
  std::vector<Function> functions;
  for (size_t e = 0; e < manifest.combinations(); ++e) {
    const std::string& name = manifest.entries[e].function;
    if (functions.empty() || functions.back().name != name) functions.push_back({name, e, 0});
    ++functions.back().count;
  }
  return functions;
}

std::vector<int64_t> buffers_of(const CudaStep& step) {
  std::vector<int64_t> buffers = step.operands;
  for (const Relocation& relocation : step.relocations) buffers.push_back(relocation.buffer);
  for (const TensorMap& map : step.tensor_maps) buffers.push_back(map.buffer);
  return buffers;
}

int64_t Manifest::state_bytes() const {
  int64_t end = 0;
  for (const State& state : states) end = std::max(end, state.offset + tensor_bytes(state.tensor));
  return end;
}

std::vector<State> Manifest::seen_states() const {
  std::vector<State> seen;
  for (const State& state : states) {
    if (state.parts.empty()) seen.push_back(state);
    int64_t offset = state.offset;
    for (const StatePart& part : state.parts) {
      seen.push_back({part.tensor, "", offset, part.order, {}});
      offset += tensor_bytes(part.tensor);
    }
  }
  return seen;
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
