#include "driver/refit.h"

#include <algorithm>

#include "core/special_values.h"
#include "driver/artefact/code_store.h"
#include "driver/artefact/source.h"
#include "driver/entry_passes.h"
#include "driver/machine/parameters_file.h"
#include "driver/ranges.h"
#include "driver/states.h"
#include "ops/list.h"
#include "runtime/format/error.h"
#include "runtime/format/safetensors.h"
#include "runtime/format/signature.h"
#include "support/hash.h"
#include "support/mapped_file.h"
#include "support/parallel.h"
#include "transform/loops/unroll.h"

namespace tw::driver {
namespace {

using frontend::Weights;

constexpr std::string_view kWeights = "weights", kSource = "source", kPlan = "plan", kManifest = "manifest";

std::string_view text_of(const format::Artefact& artefact, std::string_view section) {
  const format::Bytes bytes = artefact.section(section);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What is wrong with weights: all of it at once.
class WeightCheck {
 public:
  WeightCheck(const Source& source, const Weights& weights)
      : source_(source),
        weights_(weights),
        types_(frontend::initializer_types(std::as_bytes(std::span(source.skeleton)))) {}

  void run() {
    for (const std::string& name : source_.weights) {
      if (!weights_.contains(name)) add("'{}' ({}) is missing", name, to_string(types_.at(name)));
    }
    std::vector<const Weights::value_type*> all = mapped(weights_, [&](const auto& weight) { return &weight; });
    std::vector<SpecialValues> special(all.size());
    parallel_for(all.size(), 0,
                 [&](size_t i) { special[i] = find_special_values(*all[i]->second.bytes, all[i]->second.type.type); });
    for (size_t i = 0; i < all.size(); ++i) check(all[i]->first, all[i]->second, special[i]);
    if (count_ > 0) throw UsageError("{} of the weights {} wrong:{}", count_, count_ == 1 ? "is" : "are", text_);
  }

 private:
  template <typename... Parts>
  void add(fmt::format_string<Parts...> form, Parts&&... parts) {
    constexpr int64_t kMaxNamed = 50;
    if (count_ == kMaxNamed) text_ += "\n  ..";
    if (count_++ < kMaxNamed) text_ += "\n  " + fmt::format(form, std::forward<Parts>(parts)...);
  }

  void check(const std::string& name, const frontend::Weight& weight, const SpecialValues& special) {
    const auto type = types_.find(name);
    if (type == types_.end()) return add("'{}' is not an initializer of the model", name);
    if (weight.type != type->second)
      return add("'{}' is {}, the model has {}", name, to_string(weight.type), to_string(type->second));
    if (!source_.weights.contains(name)) return;
    if (special.nan >= 0) add("'{}' has a NaN at element {}", name, special.nan);
    if (special.infinity >= 0 && !source_.infinite.contains(name))
      add("'{}' is infinite at element {}, which the model's own was nowhere", name, special.infinity);
  }

  const Source& source_;
  const Weights& weights_;
  const std::map<std::string, TensorType> types_;
  int64_t count_ = 0;
  std::string text_;
};

// The first line of `now` that differs from `then`.
std::string first_difference(std::string_view then, std::string_view now) {
  const auto [a, b] = std::ranges::mismatch(then, now);
  const auto line = [](std::string_view text, std::string_view::iterator at) {
    const size_t place = static_cast<size_t>(at - text.begin());
    const size_t begin = place == 0 ? 0 : text.rfind('\n', place - 1) + 1;
    const std::string_view found = text.substr(begin, text.find('\n', place) - begin);
    return found.substr(std::min(found.find_first_not_of(' '), found.size()));
  };
  return fmt::format("'{}' became '{}'", line(then, a), line(now, b));
}

class Refitter {
 public:
  Refitter(std::span<const uint8_t> bytes, std::shared_ptr<const Weights> weights, const RefitProgress& progress)
      : artefact_(format::Artefact::parse(bytes, kWeights)),
        weights_(std::move(weights)),
        progress_(progress),
        ops_(ops::all_ops()) {}

  Refitted run() {
    if (format::functions_of(artefact_.manifest()).size() > 1)
      throw Unsupported("the artefact trains: its weights are states, which are set, loaded and saved as such");
    if (artefact_.section(kSource).empty() || artefact_.section(kPlan).empty())
      throw Unsupported("the artefact does not hold what it was made from: compile the model's ONNX file");
    source_ = parse_source(artefact_.section(kSource));
    WeightCheck(source_, *weights_).run();
    read_plan();
    out_.manifest = artefact_.manifest();
    import();
    for (size_t e = 0; e < out_.manifest.entries.size(); ++e) refit_entry(e);
    finish();
    return std::move(out_);
  }

 private:
  void progress(std::string_view phase, size_t done, size_t total) const {
    if (progress_) progress_(phase, static_cast<int64_t>(done), static_cast<int64_t>(total));
  }

  void read_plan() {
    const size_t entries = artefact_.manifest().entries.size();
    try {
      plan_ = plan::parse_plan(text_of(artefact_, kPlan));
    } catch (const UserError& error) {
      damaged(error.what());
    }
    const bool fits = plan_.entries.size() == entries && source_.entries.size() == entries &&
                      source_.options.imports.size() == artefact_.manifest().combinations();
    if (!fits) damaged("its plan and its sources have other entries");
  }

  [[noreturn]] static void damaged(std::string_view why) {
    throw format::Error(format::ErrorCode::kDamaged, fmt::format("the artefact is damaged: {}", why));
  }

  void import() {
    for (const frontend::ImportOptions& given : source_.options.imports) {
      progress("import", out_.sources.size(), source_.options.imports.size());
      frontend::ImportOptions options = given;
      options.weights = weights_;
      const std::span<const char> model(source_.skeleton);
      out_.sources.push_back(frontend::import_onnx_bytes(std::as_bytes(model), "", ops_, options));
      graph::Graph& graph = out_.sources.back().graph;
      graph = with_states_last(graph, source_.options.states, source_.options.dtype);
      graphs_.push_back(
          with_states_last(with_ranges(out_.sources.back(), given, least_of(source_.options, graphs_.size())).graph,
                           source_.options.states, source_.options.dtype));
    }
  }

  void refit_entry(size_t e) {
    progress("refit", e, out_.manifest.entries.size());
    const graph::Graph& model = graphs_[e % out_.manifest.combinations()];
    const std::map<std::string, graph::Bytes> constants = constants_of(e, model);
    graph::Graph groups = parse_groups(e, constants);
    store_constants(e, groups);
    const std::string text = graph::to_string(groups, stored_.hashes());
    out_.made[fmt::format("graph.{}", e)] = {text.begin(), text.end()};
  }

  // By name: what the passes make of the model's weights.
  std::map<std::string, graph::Bytes> constants_of(size_t e, const graph::Graph& model) {
    std::map<std::string, graph::Bytes> constants;
    std::map<std::string, std::string> outlines;
    make({model, plan_.entries[e], ""}, constants, outlines);
    const std::string outline = joined_outlines(outlines);
    if (outline != source_.entries[e].outline) {
      throw Unsupported(
          "these weights want other code: the compiler looked at elements that are others now, and {}. Compile the "
          "model with them",
          first_difference(source_.entries[e].outline, outline));
    }
    return constants;
  }

  // A graph, or the body of one of its loops: its names begin with `prefix`.
  struct Part {
    const graph::Graph& graph;
    plan::EntryPlan& plan;
    std::string prefix;
  };

  void make(const Part& part, std::map<std::string, graph::Bytes>& constants,
            std::map<std::string, std::string>& outlines) {
    stored_.hashes().add(part.graph);
    part.plan.graph_hash = content_hash(graph::to_string(part.graph, stored_.hashes()));
    const CompileOptions options = options_of(source_);
    const TargetInfo target = target_of(part.plan);
    transform::RunOptions run = pass_options(options, part.plan.passes);
    run.stop_after = transform::last_before_groups();
    transform::TransformContext context = transform_context(ops_, target, options, part.plan.passes);
    context.layouts = &part.plan.layouts;
    const graph::Graph made = transform::transform(part.graph, context, run);
    outlines[part.prefix] = graph::to_outline(made);
    stored_.hashes().add(made);
    for (const graph::Value& value : made.values) {
      if (value.is_constant()) constants[part.prefix + value.name] = value.constant;
    }
    for (const graph::Node& node : made.nodes) {
      if (node.op != graph::kRepeat) continue;
      const std::string inside = graph::body_prefix(made, node);
      const auto body = std::ranges::find(part.plan.bodies, plan::body_name(part.plan, inside), &plan::EntryPlan::name);
      if (body == part.plan.bodies.end()) damaged(fmt::format("its plan has no loop '{}'", inside));
      make({transform::placeable_body(node, ops_), *body, part.prefix + inside}, constants, outlines);
    }
  }

  // With the machine parameters that passes decided by.
  static TargetInfo target_of(const plan::EntryPlan& plan) {
    const TargetInfo info = targets::find_target(plan.target).info;
    if (plan.machine.empty()) return info;
    Result<TargetInfo> machine = machine::with_machine_line(info, plan.machine);
    if (!machine) damaged(fmt::format("the machine parameters of {}: {}", plan.target, machine.reason()));
    return std::move(machine).value();
  }

  graph::Graph parse_groups(size_t e, const std::map<std::string, graph::Bytes>& constants) const {
    const auto& renamed = source_.entries[e].renamed;
    const auto find = [&](const graph::Value& value, const std::string&) -> graph::Bytes {
      const auto other = renamed.find(value.name);
      const auto found = constants.find(other == renamed.end() ? value.name : other->second);
      return found == constants.end() ? nullptr : found->second;
    };
    try {
      return with_constants(graph::parse_graph_from(text_of(artefact_, fmt::format("graph.{}", e)), find), find);
    } catch (const UserError& error) {
      damaged(error.what());
    }
  }

  // And those of bodies of loops.
  static graph::Graph with_constants(graph::Graph groups, const graph::ConstantSource& find) {
    for (graph::Value& value : groups.values) {
      if (!value.is_constant()) continue;
      value.constant = find(value, "");
      if (value.constant == nullptr) damaged(fmt::format("nothing makes its constant '{}'", value.name));
    }
    for (graph::Node& group : groups.nodes) {
      if (const graph::Node* loop = graph::loop_of(group))
        group.body = graph::with_loop_body(*group.body, with_constants(*loop->body, find));
    }
    return groups;
  }

  static void add_constants(const graph::Graph& groups, std::map<std::string, const graph::Value*>& all) {
    for (const graph::Value& value : groups.values) {
      if (value.is_constant()) all[value.name] = &value;
    }
    for (const graph::Node& group : groups.nodes) {
      if (const graph::Node* loop = graph::loop_of(group)) add_constants(*loop->body, all);
    }
  }

  void store_constants(size_t e, const graph::Graph& groups) {
    const std::vector<Layout>& layouts = source_.entries[e].layouts;
    std::map<std::string, const graph::Value*> constants;
    add_constants(groups, constants);
    std::map<std::string, int64_t> first_places;
    size_t next = 0;
    for (format::Buffer& buffer : out_.manifest.entries[e].buffers) {
      if (buffer.place != format::Place::kWeights) continue;
      const auto found = constants.find(buffer.name);
      const bool is_row = !buffer.moves.empty();  // of a buffer before it
      if (found == constants.end() || (is_row ? !first_places.contains(buffer.name) : next == layouts.size()))
        damaged(fmt::format("its graph has no constant '{}'", buffer.name));
      if (is_row) {
        buffer.offset = first_places.at(buffer.name);
        continue;
      }
      const graph::Value& value = *found->second;
      const WeightStore::Place place = stored_.add(value, layouts[next++]);
      if (place.bytes != buffer.bytes)
        damaged(fmt::format("the constant '{}' has {} bytes, its buffer {}", value.name, place.bytes, buffer.bytes));
      buffer.offset = place.offset;
      first_places.try_emplace(buffer.name, place.offset);
    }
  }

  void finish() {
    const std::string plan = plan::to_string(plan_);
    out_.manifest.graph_hash = plan_.entries.front().graph_hash;
    out_.manifest.plan_hash = content_hash(plan);
    out_.made[std::string(kPlan)] = {plan.begin(), plan.end()};
    out_.made[std::string(kWeights)] = stored_.take();
    source_.skeleton = out_.sources.front().skeleton;
    source_.model = model_hash(out_.sources.front());
    source_.infinite = out_.sources.front().infinite;
    out_.made[std::string(kSource)] = to_bytes(source_);
    for (const format::Section& section : artefact_.sections()) {
      const bool is_other = section.name == kManifest || section.name == format::kSignatureSection;
      if (!is_other && !out_.made.contains(section.name)) out_.kept.push_back(section);
    }
    progress("refit", out_.manifest.entries.size(), out_.manifest.entries.size());
  }

  const format::Artefact artefact_;
  const std::shared_ptr<const Weights> weights_;
  const RefitProgress& progress_;
  const graph::OpTable ops_;
  Source source_;
  plan::Plan plan_;
  WeightStore stored_;
  std::vector<graph::Graph> graphs_;  // of each combination
  Refitted out_;
};

// A view of the file where its bytes can be read as they are stored there.
graph::Bytes elements_of(const format::NamedTensor& tensor, const std::shared_ptr<const MappedFile>& file) {
  const auto bytes = std::as_bytes(tensor.bytes);
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  const bool is_bool = tensor.dtype == format::DataType::kBool;
  if (!is_bool && address % parse_data_type(format::name_of(tensor.dtype))->bytes() == 0) return share(bytes, file);
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  if (is_bool)
    std::ranges::replace_if(
        copy, [](std::byte b) { return b != std::byte{0}; }, std::byte{1});
  return share(std::move(copy));
}

}  // namespace

std::vector<format::Section> Refitted::sections() const {
  std::vector<format::Section> all = kept;
  for (const auto& [name, bytes] : made) all.push_back({name, bytes});
  return all;
}

Refitted refit(std::span<const uint8_t> artefact, std::shared_ptr<const frontend::Weights> weights,
               const RefitProgress& progress) {
  return Refitter(artefact, std::move(weights), progress).run();
}

std::shared_ptr<const frontend::Weights> read_weights(const std::string& path) {
  if (path.ends_with(".onnx")) return std::make_shared<const Weights>(frontend::read_initializers(path));
  Result<MappedFile> opened = MappedFile::open(path);
  if (!opened) throw UsageError("'{}': {}", path, opened.reason());
  const auto file = std::make_shared<const MappedFile>(std::move(opened).value());
  std::vector<format::NamedTensor> tensors;
  try {
    tensors = format::parse_safetensors(file->bytes());
  } catch (const format::Error& error) {
    throw UsageError("'{}': {}", path, error.what());
  }
  std::vector<graph::Bytes> elements(tensors.size());
  parallel_for(tensors.size(), 0, [&](size_t i) { elements[i] = elements_of(tensors[i], file); });
  auto weights = std::make_shared<Weights>();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorType type{*parse_data_type(format::name_of(tensors[i].dtype)), tensors[i].shape};
    weights->emplace(tensors[i].name, frontend::Weight{type, std::move(elements[i])});
  }
  return weights;
}

}  // namespace tw::driver
