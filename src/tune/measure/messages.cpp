#include "tune/measure/messages.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "support/error.h"

namespace tw::tune {
namespace {

using Json = nlohmann::json;

Json binary_of(const std::vector<std::byte>& bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  return Json::binary({data, data + bytes.size()});
}

std::vector<std::byte> bytes_of(const Json& json) {
  const std::vector<uint8_t>& binary = json.get_binary();
  const auto* data = reinterpret_cast<const std::byte*>(binary.data());
  return {data, data + binary.size()};
}

Json json_of(const BufferSpec& b) {
  return {{"type", to_string(b.type.type)},       {"shape", b.type.shape},
          {"layout", to_string(b.layout)},        {"fill", static_cast<int>(b.fill)},
          {"warmth", static_cast<int>(b.warmth)}, {"seed", b.seed},
          {"bytes", binary_of(b.bytes)}};
}

BufferSpec buffer_of(const Json& json) {
  BufferSpec b;
  const auto type = parse_data_type(json.at("type").get<std::string>());
  if (!type) throw UserError("unknown element type");
  b.type = {*type, json.at("shape").get<Shape>()};
  b.layout = parse_layout(json.at("layout").get<std::string>());
  b.fill = static_cast<Fill>(json.at("fill").get<int>());
  b.warmth = static_cast<Warmth>(json.at("warmth").get<int>());
  b.seed = json.at("seed").get<uint64_t>();
  b.bytes = bytes_of(json.at("bytes"));
  return b;
}

Json json_of(const std::vector<format::TensorMap>& maps) {
  Json list = Json::array();
  for (const format::TensorMap& m : maps)
    list.push_back({{"offset", m.offset},
                    {"buffer", m.buffer},
                    {"type", format::name_of(m.dtype)},
                    {"shape", m.shape},
                    {"box", m.box},
                    {"windows", {m.windows.extents, m.windows.steps, m.windows.before}}});
  return list;
}

std::vector<format::TensorMap> maps_of(const Json& json) {
  std::vector<format::TensorMap> maps;
  for (const Json& m : json) {
    const auto type = format::parse_data_type(m.at("type").get<std::string>());
    if (!type) throw UserError("unknown element type");
    const auto numbers = [](const Json& list) { return list.get<std::vector<int64_t>>(); };
    const Json& w = m.at("windows");
    maps.push_back({m.at("offset"),
                    m.at("buffer"),
                    *type,
                    numbers(m.at("shape")),
                    numbers(m.at("box")),
                    {numbers(w.at(0)), numbers(w.at(1)), numbers(w.at(2))}});
  }
  return maps;
}

// A launch given whole: its kernel and its name are not used.
Json json_of(const format::CudaStep& step) {
  Json relocations = Json::array();
  for (const format::Relocation& r : step.relocations) relocations.push_back({r.offset, r.buffer, r.addend});
  return {{"grid", step.grid},
          {"block", step.block},
          {"shared", step.shared_bytes},
          {"params", Json::binary(step.params)},
          {"arguments", step.arguments},
          {"relocations", std::move(relocations)},
          {"maps", json_of(step.tensor_maps)}};
}

format::CudaStep step_of(const Json& json) {
  format::CudaStep step;
  step.grid = json.at("grid").get<std::array<int64_t, 3>>();
  step.block = json.at("block").get<std::array<int64_t, 3>>();
  step.shared_bytes = json.at("shared");
  step.params = json.at("params").get_binary();
  step.arguments = json.at("arguments").get<std::vector<int64_t>>();
  for (const Json& r : json.at("relocations")) step.relocations.push_back({r.at(0), r.at(1), r.at(2)});
  step.tensor_maps = maps_of(json.at("maps"));
  return step;
}

Json json_of(const format::CudaLaunch& launch) {
  return {{"threads", launch.threads},     {"shared", launch.shared_bytes}, {"maps", json_of(launch.maps)},
          {"overlaps", launch.overlaps},   {"call", launch.call},           {"operands", launch.operands},
          {"whole", json_of(launch.whole)}};
}

format::CudaLaunch launch_of(const Json& json) {
  format::CudaLaunch launch{json.at("threads"),  json.at("shared"), maps_of(json.at("maps")),
                            json.at("overlaps"), json.at("call"),   json.at("operands").get<std::vector<int64_t>>()};
  launch.whole = step_of(json.at("whole"));
  return launch;
}

Json json_of(const Workload& w) {
  Json buffers = Json::array(), steps = Json::array(), wanted = Json::array();
  for (const BufferSpec& b : w.buffers) buffers.push_back(json_of(b));
  for (const WorkStep& s : w.steps)
    steps.push_back({{"offset", s.offset},
                     {"scratch", s.scratch_bytes},
                     {"tiles", s.tiles},
                     {"args", s.args},
                     {"kernel", s.kernel},
                     {"cuda", json_of(s.cuda)}});
  for (const Wanted& want : w.wanted) wanted.push_back({{"buffer", want.buffer}, {"elements", want.elements}});
  return {{"code", binary_of(w.code)},
          {"buffers", std::move(buffers)},
          {"steps", std::move(steps)},
          {"wanted", std::move(wanted)}};
}

Workload workload_of(const Json& json) {
  Workload w;
  w.code = bytes_of(json.at("code"));
  for (const Json& b : json.at("buffers")) w.buffers.push_back(buffer_of(b));
  for (const Json& s : json.at("steps"))
    w.steps.push_back({s.at("offset"), s.at("scratch"), s.at("tiles"), s.at("args").get<std::vector<int64_t>>(),
                       s.at("kernel").get<std::string>(), launch_of(s.at("cuda"))});
  for (const Json& want : json.at("wanted"))
    w.wanted.push_back({want.at("buffer"), want.at("elements").get<std::vector<int64_t>>()});
  return w;
}

// Whatever is wrong with a message, it is no message.
template <typename Message, typename Read>
std::optional<Message> decoded(const Payload& payload, const Read& read) {
  try {
    return read(Json::from_cbor(payload, true, true, Json::cbor_tag_handler_t::error));
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

Payload encode(const Request& r) {
  Json json = {{"question", static_cast<int>(r.question)},
               {"slot", r.slot},
               {"threads", r.threads},
               {"rotate", r.rotate_bytes},
               {"outputs", static_cast<int>(r.outputs)},
               {"repetitions", r.repetitions},
               {"samples", r.samples}};
  if (r.question == Question::kLoad) json["workload"] = json_of(r.workload);
  return Json::to_cbor(json);
}

Payload encode(const Answer& a) {
  Json outputs = Json::array(), nanoseconds = Json::array(), quiet = Json::array(), differences = Json::array();
  for (const Difference& d : a.differences) differences.push_back({d.largest, d.element});
  for (const std::vector<std::byte>& bytes : a.outputs) outputs.push_back(binary_of(bytes));
  for (const Sample& s : a.samples) {
    nanoseconds.push_back(s.nanoseconds);
    quiet.push_back(s.quiet);
  }
  return Json::to_cbor(Json{{"error", a.error},
                            {"exhausted", a.exhausted},
                            {"last", a.is_last},
                            {"protocol", a.protocol},
                            {"threads", a.threads},
                            {"outputs", std::move(outputs)},
                            {"differences", std::move(differences)},
                            {"warm", a.warm_ns},
                            {"nanoseconds", std::move(nanoseconds)},
                            {"quiet", std::move(quiet)}});
}

std::optional<Request> decode_request(const Payload& payload) {
  return decoded<Request>(payload, [](const Json& json) {
    Request r;
    r.question = static_cast<Question>(json.at("question").get<int>());
    r.slot = json.at("slot");
    r.threads = json.at("threads");
    r.rotate_bytes = json.at("rotate");
    r.outputs = static_cast<Request::Outputs>(json.at("outputs").get<int>());
    r.repetitions = json.at("repetitions");
    r.samples = json.at("samples");
    if (r.question == Question::kLoad) r.workload = workload_of(json.at("workload"));
    return r;
  });
}

std::optional<Answer> decode_answer(const Payload& payload) {
  return decoded<Answer>(payload, [](const Json& json) {
    Answer a;
    a.error = json.at("error");
    a.exhausted = json.at("exhausted");
    a.is_last = json.at("last");
    a.protocol = json.at("protocol");
    a.threads = json.at("threads");
    for (const Json& bytes : json.at("outputs")) a.outputs.push_back(bytes_of(bytes));
    for (const Json& d : json.at("differences")) a.differences.push_back({d.at(0), d.at(1)});
    a.warm_ns = json.at("warm");
    const Json& times = json.at("nanoseconds");
    for (size_t i = 0; i < times.size(); ++i) a.samples.push_back({times[i], json.at("quiet").at(i).get<bool>()});
    return a;
  });
}

}  // namespace tw::tune
