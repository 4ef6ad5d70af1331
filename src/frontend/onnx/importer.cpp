#include "frontend/onnx/importer.h"

#include "core/special_values.h"
#include "frontend/onnx/limits.h"
#include "frontend/onnx/liveness.h"

namespace tw::frontend {

namespace {

std::string function_key(const std::string& domain, const std::string& name, const std::string& overload) {
  return canonical_domain(domain) + ":" + name + ":" + overload;
}

Opsets read_opset_list(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  Opsets opsets;
  for (const auto& entry : imports) opsets[canonical_domain(entry.domain())] = entry.version();
  return opsets;
}

int64_t opset_of(const NameScope& scope, const std::string& domain) {
  return value_or(*scope.opsets, canonical_domain(domain), 0);
}

// Bytes that products may multiply as they are: dequantized here they would be floats for good.
bool is_quantized_weight(const TensorType& type) {
  return type.type.is_int() && type.type.bits() == 8 && type.shape.size() >= 2;
}

}  // namespace

Importer::Importer(const onnx::ModelProto& model, const std::string& base_directory, const graph::OpTable& ops,
                   const ImportOptions& options)
    : model_(model),
      options_(options),
      files_(base_directory, options.link_folders),
      builder_(model.graph().name(), ops),
      binding_(options) {}

ImportResult Importer::run() {
  read_opsets();
  read_functions();
  NameScope scope;
  scope.opsets = &opsets_;
  const onnx::GraphProto& graph = model_.graph();
  Names needed;
  for (const auto& output : graph.output()) {
    declare(output);
    needed.insert(output.name());
  }
  for (const auto& info : graph.value_info()) declare(info);
  if (needed.empty()) throw UserError("the model's graph has no outputs");
  add_main_inputs(scope);
  add_initializers(graph, names_read(graph.node(), needed), scope);
  import_nodes(graph.node(), std::move(needed), scope);
  if (!unsupported_.empty()) throw UnsupportedModel(std::move(unsupported_), std::move(bindable_));
  check_bounds();
  ImportResult result;
  find_weights(result);
  std::vector<ValueId> outputs = finish_outputs(scope);
  append(outputs, counts_);
  result.graph = builder_.finish(std::move(outputs));
  result.counted = std::move(counted_);
  result.warnings = std::move(warnings_);
  result.external_files.assign(files_.read_files().begin(), files_.read_files().end());
  result.opset = opset_of(scope, "");
  result.ir_version = model_.ir_version();
  result.producer = model_.producer_name();
  if (!model_.producer_version().empty()) result.producer += " " + model_.producer_version();
  return result;
}

std::optional<int64_t> Importer::next_dropout() {
  return options_.purpose == Purpose::kTraining ? std::optional(dropouts_++) : std::nullopt;
}

void Importer::add_counted(const std::string& name, int64_t bound, ValueId rows, ValueId count) {
  if (at_ != &builder_) throw Unsupported("the number of rows of '{}' comes out of a loop's turn", name);
  counted_.push_back({name, bound, builder_.value_name(rows), builder_.value_name(count)});
  counts_.push_back(count);
}

// That each bound is one of rows that a run counts.
void Importer::check_bounds() const {
  for (const auto& [name, bound] : options_.bounds) {
    if (std::ranges::find(counted_, name, &CountedRows::name) != counted_.end()) continue;
    const std::string known = fmt::format("{}", fmt::join(mapped(counted_, &CountedRows::name), ", "));
    throw UserError("--bound {}={}: no run counts rows of a value of that name{}{}", name, bound,
                    known.empty() ? "" : "; it does of ", known);
  }
}

void Importer::read_opsets() {
  opsets_ = read_opset_list(model_.opset_import());
  if (opsets_.empty()) {
    // Files of IR version 1 and 2 have no opset_import: they are of opset 1.
    if (model_.ir_version() >= 3)
      throw UserError("the model has no opset_import, so its operators' versions are unknown");
    opsets_[""] = 1;
  }
  const auto it = opsets_.find("");
  if (it != opsets_.end() && it->second > kNewestOpset) {
    throw Unsupported("the model uses opset {}; the newest supported one is {}: export it with opset_version={}",
                      it->second, kNewestOpset, kNewestOpset);
  }
}

void Importer::read_functions() {
  for (const auto& function : model_.functions()) {
    const std::string key = function_key(function.domain(), function.name(), function.overload());
    functions_[key] = &function;
    function_opsets_[&function] = function.opset_import_size() > 0 ? read_opset_list(function.opset_import()) : opsets_;
  }
}

// A value of a type that we have no tensors of is made by no converter: what should make it is reported instead.
void Importer::declare(const onnx::ValueInfoProto& value) {
  try {
    declared_.emplace(value.name(), declared_type(value));
  } catch (const Unsupported&) {
    return;
  }
}

void Importer::add_main_inputs(NameScope& scope) {
  Names initialized;
  for (const auto& tensor : model_.graph().initializer()) initialized.insert(tensor.name());
  for (const auto& tensor : model_.graph().sparse_initializer()) initialized.insert(tensor.values().name());
  std::vector<const onnx::ValueInfoProto*> inputs;
  for (const auto& input : model_.graph().input()) {
    if (input.name().empty()) throw UserError("an input of the model has no name");
    if (initialized.count(input.name()) != 0) continue;
    try {
      declared_type(input);
      inputs.push_back(&input);
    } catch (const Unsupported& e) {
      record_unsupported_input(input.name(), e.what());
      define(scope, input.name(), {kAbsent, true});
    }
  }
  const std::vector<TensorType> types = input_types_or_survey(inputs, scope);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = inputs[i]->name();
    const auto constant = options_.constants.find(name);
    const bool bound = constant != options_.constants.end();
    define(scope, name, {bound ? builder_.add_constant(name, constant->second) : builder_.add_input(name, types[i])});
  }
}

// Nobody should look for the right dimensions of a model that cannot be compiled: when some are unbound, or given by a
// wrong name, the operators are checked first, with all inputs taken as unusable.
std::vector<TensorType> Importer::input_types_or_survey(const std::vector<const onnx::ValueInfoProto*>& inputs,
                                                        const NameScope& main) {
  try {
    binding_.add_inputs(inputs);
    return binding_.input_types();
  } catch (const UserError&) {
    NameScope scope = main;
    for (const auto* input : inputs) define(scope, input->name(), {kAbsent, true});
    const onnx::GraphProto& graph = model_.graph();
    Names needed;
    for (const auto& output : graph.output()) needed.insert(output.name());
    for (const auto& tensor : graph.initializer()) scope.names.insert_or_assign(tensor.name(), Binding{kAbsent, true});
    import_nodes(graph.node(), std::move(needed), scope);
    if (!unsupported_.empty()) throw UnsupportedModel(std::move(unsupported_), std::move(bindable_));
    throw;
  }
}

void Importer::add_initializers(const onnx::GraphProto& graph, const Names& needed, NameScope& scope) {
  for (const auto& tensor : graph.initializer()) {
    if (needed.count(tensor.name()) == 0) continue;
    check_limits(options_.watch.get(), "reading initializers");
    TensorData data = initial_value(tensor, scope);
    const TensorType type = data.type;
    const ValueId id = builder().add_constant(scope.prefix + tensor.name(), type, std::move(data.bytes));
    define(scope, tensor.name(), {id});
    if (is_quantized_weight(type) || (options_.purpose == Purpose::kTraining && may_be_weight(type)))
      builder().keep(id);
    if (&graph == &model_.graph()) initializers_[tensor.name()] = id;
  }
  for (const auto& tensor : graph.sparse_initializer()) {
    if (needed.count(tensor.values().name()) == 0) continue;
    throw Unsupported("initializer '{}' is a sparse tensor; only dense tensors are supported", tensor.values().name());
  }
}

TensorData Importer::initial_value(const onnx::TensorProto& tensor, const NameScope& scope) const {
  const bool is_main = scope.parent == nullptr && scope.depth == 0;
  if (options_.weights == nullptr || !is_main) return read_tensor(tensor, files_);
  const auto given = options_.weights->find(tensor.name());
  if (given == options_.weights->end()) return read_tensor(tensor, files_);
  const TensorType type = tensor_type(tensor);
  if (given->second.type != type)
    throw UserError("weight '{}' is {}, the model has {}", tensor.name(), to_string(given->second.type),
                    to_string(type));
  return {type, given->second.bytes};
}

// A number without dimensions is how exporters write constants of the formula. One element with dimensions is how they
// write the bias of one unit, too.
bool Importer::may_be_weight(const TensorType& type) const {
  if (options_.purpose == Purpose::kInference) return type.elements() > 1;
  return type.type == DataType::f32() && !type.shape.empty() && type.elements() > 0;
}

void Importer::find_weights(ImportResult& result) const {
  const std::vector<bool> looked_at = builder_.looked_at();
  for (const auto& [name, id] : initializers_) {
    result.needed.insert(name);
    if (looked_at[id] || !may_be_weight(builder_.type(id))) continue;
    result.weights.insert(name);
    result.elements.push_back(builder_.shared_bytes(id));
    if (find_special_values(builder_.bytes(id), builder_.type(id).type).infinity >= 0) result.infinite.insert(name);
  }
}

void Importer::import_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, Names needed,
                            NameScope& scope) {
  const std::vector<bool> live = live_nodes(nodes, std::move(needed));
  for (int i = 0; i < nodes.size(); ++i) {
    if (live[i]) import_node(nodes[i], scope);
  }
}

const onnx::FunctionProto* Importer::find_function(const onnx::NodeProto& node) const {
  return value_or(functions_, function_key(node.domain(), node.op_type(), node.overload()), nullptr);
}

bool Importer::is_known(const onnx::NodeProto& node, const NameScope& scope) const {
  const int64_t opset = opset_of(scope, node.domain());
  return find_converter(canonical_domain(node.domain()), node.op_type(), opset) != nullptr ||
         find_function(node) != nullptr;
}

void Importer::import_node(const onnx::NodeProto& node, NameScope& scope) {
  check_limits(options_.watch.get(), "importing nodes", nodes_);
  if (++nodes_ > kMaxNodes) throw UserError("the model has more than {} nodes after inlining and unrolling", kMaxNodes);
  bool usable = true;
  for (const std::string& name : node.input()) {
    if (name.empty()) continue;
    const std::optional<Binding> binding = scope.find(name);
    if (!binding) {
      throw UserError(
          "node '{}' ({}) reads '{}', which is neither an input nor an initializer, and which no node writes",
          node.name(), node.op_type(), name);
    }
    usable = usable && !binding->unsupported;
  }
  if (!is_known(node, scope)) {
    record_unsupported(node, scope, "");
    usable = false;
  }
  if (usable) {
    convert(node, scope);
  } else {
    define_unsupported(node, scope);
  }
}

void Importer::convert(const onnx::NodeProto& node, NameScope& scope) {
  const int64_t opset = opset_of(scope, node.domain());
  NodeContext c(*this, node, scope, opset);
  c.set_inputs(mapped(node.input(), [&](const auto& name) { return name.empty() ? kAbsent : scope.find(name)->id; }));
  const size_t first_new = builder().num_values();
  try {
    define_outputs(node, convert_node(c), scope, first_new);
  } catch (const BodyUnsupported&) {
    define_unsupported(node, scope);
  } catch (const ConstantNeeded& e) {
    bindable_.insert(bindable_.end(), e.bindable().begin(), e.bindable().end());
    record_unsupported(node, scope, e.what());
    define_unsupported(node, scope);
  } catch (const Unsupported& e) {
    record_unsupported(node, scope, e.what());
    define_unsupported(node, scope);
  } catch (const UserError& e) {
    std::vector<std::string> types;
    for (size_t k = 0; k < c.num_inputs(); ++k) types.push_back(c.has(k) ? to_string(c.type(k)) : "absent");
    const std::string name = scope.prefix + c.name();
    throw NodeError(name, "node '{}' ({}, opset {}) with inputs ({}): {}", name, node.op_type(), opset,
                    fmt::join(types, ", "), e.what());
  }
}

Outputs Importer::convert_node(NodeContext& c) {
  const onnx::FunctionProto* function = find_function(c.node());
  const ConverterRow* row = find_converter(canonical_domain(c.node().domain()), c.op(), c.opset());
  // Operators of ONNX itself stay what the specification says; all other names belong to the model first.
  if (function != nullptr && (row == nullptr || !canonical_domain(c.node().domain()).empty()))
    return call_function(*function, c);
  for (size_t k = 0; k < c.num_inputs(); ++k) {
    if (c.has(k) && builder().sequence(c.input(k)) != nullptr && !reads_sequence(c.op()))
      throw Unsupported("its input {} is a sequence", k);
  }
  Outputs outputs = row->convert(c);
  const std::vector<std::string> unused = c.unused_attrs();
  if (!unused.empty()) {
    warn(fmt::format("node '{}' ({}, opset {}): attribute{} {} ignored: not known for this operator", c.name(), c.op(),
                     c.opset(), unused.size() == 1 ? "" : "s", fmt::join(unused, ", ")));
  }
  return outputs;
}

void Importer::define(NameScope& scope, const std::string& name, Binding binding) {
  if (!scope.names.emplace(name, binding).second) throw UserError("value '{}' is defined twice", scope.prefix + name);
}

void Importer::define_outputs(const onnx::NodeProto& node, const Outputs& outputs, NameScope& scope, size_t first_new) {
  std::vector<ValueId> named;
  for (int k = 0; k < node.output_size(); ++k) {
    const std::string& name = node.output(k);
    if (name.empty()) continue;
    if (k >= static_cast<int>(outputs.size()) || outputs[k] == kAbsent) {
      throw Unsupported("its output {} ('{}') is not supported", k, name);
    }
    const ValueId id = outputs[k];
    // A value made for this node takes the ONNX name; one that existed before (Identity) keeps the name it has.
    if (static_cast<size_t>(id) >= first_new && std::ranges::find(named, id) == named.end()) {
      builder().rename(id, scope.prefix + name);
      named.push_back(id);
    }
    if (scope.parent == nullptr && scope.depth == 0) check_declared(name, id);
    define(scope, name, {id});
  }
}

void Importer::define_unsupported(const onnx::NodeProto& node, NameScope& scope) {
  for (const std::string& name : node.output()) {
    if (!name.empty()) scope.names.insert_or_assign(name, Binding{kAbsent, true});
  }
  survey_bodies(node, scope);
}

void Importer::check_declared(const std::string& name, ValueId id) {
  const auto it = declared_.find(name);
  if (it == declared_.end()) return;
  const TensorType& actual = builder().type(id);
  const std::string why = binding_.disagreement(it->second, actual);
  if (why.empty()) return;
  if (it->second.type != actual.type) throw UserError("value '{}': {}", name, why);
  // Exporters leave stale shapes. What the operators make of the inputs is sure.
  warn(fmt::format("value '{}': {}, which is what it is taken as", name, why));
}

// The operator behind a value's name, as errors say it.
std::string Importer::maker_of(const std::string& name) const {
  for (const onnx::NodeProto& node : model_.graph().node()) {
    if (std::ranges::find(node.output(), name) != node.output().end()) return node.op_type();
  }
  return "the caller";
}

std::vector<ValueId> Importer::finish_outputs(const NameScope& scope) {
  std::vector<ValueId> outputs;
  for (const auto& output : model_.graph().output()) {
    const std::optional<Binding> binding = scope.find(output.name());
    if (!binding) throw UserError("no node writes the model's output '{}'", output.name());
    ValueId id = binding->id;
    if (builder().sequence(id) != nullptr)
      throw Unsupported("the model's output '{}', which {} makes, is a sequence; outputs are tensors", output.name(),
                        maker_of(output.name()));
    check_declared(output.name(), id);
    // An output is a value of its own: one that is also an input, or leaves twice, is copied.
    if (builder().is_input(id) || std::ranges::find(outputs, id) != outputs.end())
      id = Emitter(builder(), output.name()).copy(id);
    builder().force_name(id, output.name());
    outputs.push_back(id);
  }
  return outputs;
}

void Importer::record_unsupported(const onnx::NodeProto& node, const NameScope& scope, const std::string& reason) {
  const int64_t opset = opset_of(scope, node.domain());
  UnsupportedItem item{node.op_type(), canonical_domain(node.domain()), opset, reason, {}};
  const auto same = [&](const UnsupportedItem& other) {
    return other.op == item.op && other.domain == item.domain && other.opset == opset && other.reason == reason;
  };
  auto it = std::ranges::find_if(unsupported_, same);
  if (it == unsupported_.end()) it = unsupported_.insert(unsupported_.end(), std::move(item));
  std::string name = node.name();
  if (name.empty() && node.output_size() > 0) name = node.output(0);
  it->nodes.push_back(fmt::format("'{}{}'", scope.prefix, name));
}

void Importer::record_unsupported_input(const std::string& name, const std::string& reason) {
  UnsupportedItem item{"", "", 0, reason, {}};
  for (const auto& node : model_.graph().node()) {
    if (std::ranges::find(node.input(), name) == node.input().end()) continue;
    const std::string label = !node.name().empty() ? node.name() : node.output_size() > 0 ? node.output(0) : "";
    item.nodes.push_back(fmt::format("{} '{}'", node.op_type(), label));
  }
  unsupported_.push_back(std::move(item));
}

void Importer::warn(std::string text) {
  if (std::ranges::find(warnings_, text) == warnings_.end()) warnings_.push_back(std::move(text));
}

}  // namespace tw::frontend
