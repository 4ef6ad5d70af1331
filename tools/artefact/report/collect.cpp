// The data of a report from an artefact: what the manifest, the plan and the profile of a run say.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "artefact/artefact_graph.h"
#include "artefact/report/report.h"
#include "runtime/format/container.h"
#include "te/materialize.h"

namespace tw::artefact::report {
namespace {

constexpr int64_t kLine = 16, kLines = 3;            // of a layout's picture
constexpr int64_t kMostElements = int64_t{1} << 24;  // of a tensor whose layout is drawn
constexpr size_t kMostLayouts = 4;

// A buffer that moves in a loop is a row of the one that has its name: that one is in use.
std::vector<std::set<int64_t>> buffers_of_steps(const format::Entry& entry) {
  std::map<std::string, int64_t> whole;
  for (size_t b = 0; b < entry.buffers.size(); ++b) {
    if (entry.buffers[b].moves.empty()) whole.emplace(entry.buffers[b].name, static_cast<int64_t>(b));
  }
  std::vector<std::set<int64_t>> steps;
  const auto add = [&](const std::vector<int64_t>& buffers) {
    std::set<int64_t>& used = steps.emplace_back();
    for (const int64_t b : buffers) {
      const format::Buffer& buffer = entry.buffers[static_cast<size_t>(b)];
      const auto found = buffer.moves.empty() ? whole.end() : whole.find(buffer.name);
      used.insert(found == whole.end() ? b : found->second);
    }
  };
  for (const format::CpuStep& s : entry.cpu_steps) add(format::buffers_of(s));
  for (const format::CudaStep& s : entry.cuda_steps) add(format::buffers_of(s));
  return steps;
}

int64_t most_at_once(const Memory& memory) {
  std::vector<int64_t> change(static_cast<size_t>(memory.steps) + 1);
  for (const Box& box : memory.boxes) {
    change[static_cast<size_t>(box.first_step)] += box.bytes;
    change[static_cast<size_t>(box.last_step) + 1] -= box.bytes;
  }
  int64_t now = 0, most = 0;
  for (const int64_t c : change) most = std::max(most, now += c);
  return most;
}

Memory memory_of(const format::Entry& entry) {
  const std::vector<std::set<int64_t>> steps = buffers_of_steps(entry);
  Memory memory;
  memory.arena_bytes = entry.arena_bytes;
  memory.steps = static_cast<int64_t>(steps.size());
  for (size_t b = 0; b < entry.buffers.size(); ++b) {
    const format::Buffer& buffer = entry.buffers[b];
    if (!buffer.moves.empty()) continue;
    if (buffer.place == format::Place::kWeights) memory.weights_bytes += buffer.bytes;
    if (buffer.place != format::Place::kArena || buffer.bytes == 0) continue;
    Box box{buffer.name, -1, -1, buffer.offset, buffer.bytes};
    for (size_t s = 0; s < steps.size(); ++s) {
      if (!steps[s].contains(static_cast<int64_t>(b))) continue;
      if (box.first_step < 0) box.first_step = static_cast<int64_t>(s);
      box.last_step = static_cast<int64_t>(s);
    }
    if (box.first_step >= 0) memory.boxes.push_back(std::move(box));
  }
  memory.needed_bytes = most_at_once(memory);
  return memory;
}

LayoutPicture picture_of(const Flow& flow) {
  LayoutPicture picture{
      flow.value, flow.type, tw::to_string(flow.layout), flow.layout.storage_shape(flow.type.shape), {}};
  std::vector<uint32_t> logical(static_cast<size_t>(flow.type.elements()));
  for (size_t i = 0; i < logical.size(); ++i) logical[i] = static_cast<uint32_t>(i);
  const uint32_t none = UINT32_MAX;
  const std::vector<std::byte> stored =
      te::materialize(std::as_bytes(std::span(logical)), sizeof(uint32_t), flow.type.shape, flow.layout,
                      {.fill = std::as_bytes(std::span(&none, 1))});
  const int64_t inner = picture.storage.empty() ? 1 : picture.storage.back();
  const auto all = static_cast<int64_t>(stored.size() / sizeof(uint32_t));
  picture.line = std::min(inner, kLine);
  for (int64_t l = 0; l < kLines && l * inner < all; ++l) {
    for (int64_t i = 0; i < picture.line; ++i) {
      uint32_t element = 0;
      std::memcpy(&element, stored.data() + static_cast<size_t>(l * inner + i) * sizeof element, sizeof element);
      picture.elements.push_back(element == none ? -1 : static_cast<int64_t>(element));
    }
  }
  return picture;
}

// "split reorder": layouts of one kind look alike.
std::string kind_of(const Flow& flow) {
  std::string kind = flow.is_constant ? "constant" : "value";
  for (const LayoutPrimitive& p : flow.layout.primitives()) kind += fmt::format(" {}", static_cast<int>(p.op));
  return kind;
}

// The largest value of each kind of layout, in the order of execution.
std::vector<LayoutPicture> pictures_of(const std::vector<Flow>& flows) {
  std::map<std::string, const Flow*> largest;
  std::vector<std::string> order;
  for (const Flow& flow : flows) {
    if (flow.layout.is_identity() || flow.type.elements() > kMostElements || flow.type.elements() == 0) continue;
    const auto [found, fresh] = largest.try_emplace(kind_of(flow), &flow);
    if (fresh) order.push_back(found->first);
    if (flow.type.elements() > found->second->type.elements()) found->second = &flow;
  }
  std::vector<LayoutPicture> pictures;
  for (const std::string& kind : order) {
    if (pictures.size() < kMostLayouts) pictures.push_back(picture_of(*largest.at(kind)));
  }
  return pictures;
}

std::vector<NamedType> named(const std::vector<format::TensorSpec>& specs) {
  std::vector<NamedType> all;
  for (const format::TensorSpec& s : specs)
    all.push_back({s.name, {*parse_data_type(format::name_of(s.dtype)), s.shape}});
  return all;
}

}  // namespace

Report collect(const Subject& subject) {
  const format::Artefact artefact = format::Artefact::parse(subject.artefact);
  const format::Manifest& manifest = artefact.manifest();
  const format::Entry& entry = manifest.entries.at(manifest_entry(manifest, subject.run.level, subject.run.entry));
  Report out;
  out.model = subject.model;
  out.producer = manifest.producer;
  out.level = subject.run.level;
  out.entry = entry.name;
  out.entries = static_cast<int64_t>(manifest.combinations());
  out.file_bytes = static_cast<int64_t>(subject.artefact.size());
  out.threads = subject.run.threads;
  out.on_gpu = manifest.kind() == format::TargetKind::kCuda;
  out.inputs = named(entry.inputs);
  out.outputs = named(entry.outputs);
  out.target = subject.target.info;
  out.explained = explain_entry(subject.artefact, subject.run, subject.target);
  out.has_profile = !subject.run.steps.empty();
  out.memory = memory_of(entry);
  out.layouts = pictures_of(out.explained.flows);
  return out;
}

OutputDifference difference_of(const std::string& output, const Array& now, const Array& before) {
  const graph::RefTensor a = to_reference(now), b = to_reference(before);
  OutputDifference d{output, a.type.elements()};
  for (int64_t i = 0; i < d.elements; ++i) {
    const double x = a.at(i), y = b.at(i);
    d.different += x != y && !(std::isnan(x) && std::isnan(y));
    if (std::isfinite(x - y)) d.largest = std::max(d.largest, std::fabs(x - y));
    if (std::isfinite(y)) d.scale = std::max(d.scale, std::fabs(y));
  }
  return d;
}

}  // namespace tw::artefact::report
