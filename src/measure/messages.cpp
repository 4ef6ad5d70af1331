#include "measure/messages.h"

#include <nlohmann/json.hpp>

#include "support/error.h"

using Json = nlohmann::json;

template <>
struct nlohmann::adl_serializer<std::vector<std::byte>> {
  static void to_json(Json& json, const std::vector<std::byte>& bytes) {
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
    json = Json::binary({data, data + bytes.size()});
  }
  static void from_json(const Json& json, std::vector<std::byte>& bytes) {
    const std::vector<uint8_t>& binary = json.get_binary();
    const auto* data = reinterpret_cast<const std::byte*>(binary.data());
    bytes.assign(data, data + binary.size());
  }
};

namespace tw {
template <typename Type>
static Type known(const std::optional<Type>& type) {
  return type ? *type : throw UserError("unknown element type");
}
}  // namespace tw

// Both ends are one build: members go by their own names, enums as numbers. The library finds these functions in the
// namespaces of their types.
namespace tw::format {
static void to_json(Json& json, DataType type) { json = name_of(type); }
static void from_json(const Json& json, DataType& type) { type = known(parse_data_type(json.get<std::string>())); }
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Windows, extents, steps, before)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TensorMap, offset, buffer, dtype, shape, box, windows)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Relocation, offset, buffer, addend)
// A launch given whole: its kernel and its name are not used.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CudaStep, grid, block, shared_bytes, params, arguments, relocations, tensor_maps)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CudaLaunch, threads, shared_bytes, maps, blocks, overlaps, call, operands, whole,
                                   workspace_bytes, zero_bytes)
}  // namespace tw::format

namespace tw {
static void to_json(Json& json, DataType type) { json = to_string(type); }
static void from_json(const Json& json, DataType& type) { type = known(parse_data_type(json.get<std::string>())); }
static void to_json(Json& json, const Layout& layout) { json = to_string(layout); }
static void from_json(const Json& json, Layout& layout) { layout = parse_layout(json.get<std::string>()); }
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TensorType, type, shape)
}  // namespace tw

namespace tw::measure {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BufferSpec, type, layout, fill, cache_state, seed, bytes, most)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WorkStep, offset, scratch_bytes, tiles, args, kernel, cuda)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Wanted, buffer, elements)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Workload, code, buffers, steps, wanted)  // the asker alone needs what it expects
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Request, question, slot, threads, rotate_bytes, workload, outputs, repetitions,
                                   samples)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Sample, nanoseconds, quiet)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Difference, largest, element)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Answer, error, exhausted, is_last, protocol, threads, outputs, differences, warm_ns,
                                   samples)

namespace {

// Whatever is wrong with a message, it is no message.
template <typename Message>
std::optional<Message> decoded(const Payload& payload) {
  try {
    return Json::from_cbor(payload, true, true, Json::cbor_tag_handler_t::error).get<Message>();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

}  // namespace

std::string_view outcome_name(Outcome outcome) {
  constexpr std::string_view kNames[] = {"measured", "crashed", "timed-out",   "garbage",
                                         "refused",  "wrong",   "not-measured"};
  return kNames[static_cast<size_t>(outcome)];
}

Payload encode(const Request& request) { return Json::to_cbor(request); }
Payload encode(const Answer& answer) { return Json::to_cbor(answer); }
std::optional<Request> decode_request(const Payload& payload) { return decoded<Request>(payload); }
std::optional<Answer> decode_answer(const Payload& payload) { return decoded<Answer>(payload); }

}  // namespace tw::measure
