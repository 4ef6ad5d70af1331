// Control flow: branches that are known at import are inlined; loops are one body for all turns, or unrolled where a
// turn is other code than the one before.
#include <algorithm>

#include "frontend/onnx/converters.h"
#include "frontend/onnx/importer.h"
#include "frontend/onnx/limits.h"

namespace tw::frontend {
namespace {

std::string body_prefix(NodeContext& c, std::string_view body) {
  return fmt::format("{}{}/{}/", c.scope().prefix, c.name(), body);
}

Outputs import_branch(NodeContext& c, const std::string& branch) {
  return c.importer().import_body(c.graph_attr(branch), c.scope(), {}, body_prefix(c, branch));
}

// One that may never be taken: its error says how to leave it out.
Outputs import_either(NodeContext& c, const std::string& branch) {
  constexpr std::string_view kRemedy =
      "it is in a branch of an If whose condition is not known: where an input decides that is always the same, give "
      "it "
      "(--const NAME=@FILE.npy)";
  try {
    return import_branch(c, branch);
  } catch (const NodeError& error) {
    throw NodeError(error.node(), "{}; {}", error.what(), kRemedy);
  } catch (const Unsupported& error) {
    throw Unsupported("{}; {}", error.what(), kRemedy);
  }
}

// A condition that is not known runs both branches and selects: all operators are total, so the other one does no harm.
Outputs convert_if(NodeContext& c) {
  Emitter& e = c.emit();
  if (c.type(0).elements() != 1 || !c.type(0).type.is_bool()) throw UserError("the condition must be one bool");
  if (c.is_constant(0)) {
    c.ignore_attr("then_branch");
    c.ignore_attr("else_branch");
    return import_branch(c, c.constant(0, "cond").ints[0] != 0 ? "then_branch" : "else_branch");
  }
  const Outputs yes = import_either(c, "then_branch");
  const Outputs no = import_either(c, "else_branch");
  if (yes.size() != no.size()) throw UserError("the branches have {} and {} outputs", yes.size(), no.size());
  const ValueId condition = e.reshape(c.input(0), {});
  Outputs outputs;
  for (size_t k = 0; k < yes.size(); ++k) {
    const GraphBuilder& builder = c.importer().builder();
    if (builder.sequence(yes[k]) != nullptr || builder.sequence(no[k]) != nullptr)
      throw Unsupported("output {} is a sequence, and the condition is not known at compile time", k);
    if (e.type(yes[k]) != e.type(no[k])) {
      throw Unsupported(
          "output {} is {} in one branch and {} in the other, and the condition is not known at compile time", k,
          to_string(e.type(yes[k])), to_string(e.type(no[k])));
    }
    outputs.push_back(e.where(condition, yes[k], no[k]));
  }
  return outputs;
}

bool are_tensors(NodeContext& c, const std::vector<ValueId>& values) {
  return std::ranges::none_of(values, [&](ValueId id) { return c.importer().builder().sequence(id) != nullptr; });
}

// Stacks values of equal shape along a new first axis.
ValueId stack(Emitter& e, const std::vector<ValueId>& parts, int64_t axis) {
  const auto row = [&](ValueId part) { return e.unsqueeze(part, normalize_axis(axis, e.rank(part) + 1)); };
  return e.concat(mapped(parts, row), normalize_axis(axis, e.rank(parts[0]) + 1));
}

// body(iteration, condition, carried...) -> (condition, carried..., scanned...).
struct LoopCall {
  const onnx::GraphProto& body;
  std::vector<ValueId> state;
  size_t scanned = 0;
};

ValueId number_of_turn(Emitter& e, int64_t turn) { return e.scalar(static_cast<double>(turn), DataType::i64()); }

// All turns by one body; nothing where a turn's code depends on its number, or where the loop may end before.
std::optional<Outputs> loop_of_turns(NodeContext& c, const LoopCall& call, int64_t trips) {
  Emitter& e = c.emit();
  LoopBody loop(c.importer().builder(), e.name());
  const auto inside = mapped(call.state, [&](ValueId first) { return loop.carried(first); });
  const ValueId turn = loop.row(e.int_list(sequence(trips)), Order::kForwards);
  const auto inputs = joined(std::vector<ValueId>{turn, loop.emit().scalar(1, DataType::boolean())}, inside);
  const auto out = c.importer().import_turn(call.body, c.scope(), loop, inputs, body_prefix(c, "turn"));
  if (!out) return std::nullopt;
  const bool goes_on = loop.builder().is_constant(out->at(0)) && loop.builder().type(out->at(0)).elements() == 1 &&
                       loop.builder().constant(out->at(0)).at(0) != 0;
  if (!goes_on) return std::nullopt;
  std::vector<LoopBody::Left> left;
  std::vector<LoopBody::Row> rows;
  for (size_t k = 0; k < call.state.size(); ++k) {
    if (loop.builder().type(out->at(1 + k)) != e.type(call.state[k])) return std::nullopt;
    left.push_back({out->at(1 + k)});
  }
  for (size_t k = 0; k < call.scanned; ++k) rows.push_back({out->at(1 + call.state.size() + k)});
  LoopBody::Made made = loop.finish(trips, left, rows);
  append(made.last, made.stacks);
  return made.last;
}

// Each iteration is a copy of the body. The trip count or the condition must be known.
Outputs unrolled_loop(NodeContext& c, LoopCall call, int64_t trips, bool running) {
  Emitter& e = c.emit();
  std::vector<ValueId>& state = call.state;
  std::vector<std::vector<ValueId>> rows(call.scanned);
  GraphBuilder& builder = c.importer().builder();
  for (int64_t i = 0; i < trips && running; ++i) {
    if (i >= kMaxTrips) throw Unsupported("it runs more than {} times", kMaxTrips);
    std::vector<ValueId> inputs{number_of_turn(e, i), e.scalar(1, DataType::boolean())};
    inputs.insert(inputs.end(), state.begin(), state.end());
    const Outputs out = c.importer().import_body(call.body, c.scope(), inputs, body_prefix(c, std::to_string(i)));
    for (size_t k = 0; k < state.size(); ++k) state[k] = out[1 + k];
    for (size_t k = 0; k < call.scanned; ++k) rows[k].push_back(out[1 + state.size() + k]);
    if (!builder.is_constant(out[0])) throw Unsupported("its condition is not known at compile time");
    if (builder.type(out[0]).elements() != 1) throw UserError("the body's condition must be one bool");
    running = builder.constant(out[0]).at(0) != 0;
  }
  for (size_t k = 0; k < call.scanned; ++k) {
    if (rows[k].empty()) throw Unsupported("it runs zero times, so the shapes of its scanned outputs are not known");
    state.push_back(stack(e, rows[k], 0));
  }
  return state;
}

Outputs convert_loop(NodeContext& c) {
  LoopCall call{c.graph_attr("body"), {}};
  for (size_t k = 2; k < c.num_inputs(); ++k) call.state.push_back(c.input(k));
  if (call.body.output_size() < 1 + static_cast<int>(call.state.size()))
    throw UserError("the body has too few outputs");
  call.scanned = call.body.output_size() - 1 - call.state.size();
  const bool running = !c.has(1) || c.const_int(1, "cond") != 0;
  const int64_t trips = c.has(0) ? c.const_int(0, "M") : kMaxTrips + 1;
  if (c.has(0) && running && trips > 1 && trips <= kMaxTurns && are_tensors(c, call.state)) {
    if (std::optional<Outputs> made = loop_of_turns(c, call, trips)) return *made;
  }
  return unrolled_loop(c, std::move(call), trips, running);
}

struct ScanAxes {
  std::vector<int64_t> input_axes, input_directions, output_axes, output_directions;
};

Order order_of(int64_t direction) { return direction == 0 ? Order::kForwards : Order::kBackwards; }

std::vector<int64_t> per_value(NodeContext& c, const std::string& key, size_t count) {
  std::vector<int64_t> list = c.ints_or(key, std::vector<int64_t>(count, 0));
  if (list.size() != count) throw UserError("attribute '{}' has {} values for {}", key, list.size(), count);
  return list;
}

// body(state..., slices...) -> (state..., scanned...), once for each element along the scanned axis.
struct ScanCall {
  const onnx::GraphProto& body;
  std::vector<ValueId> state;
  std::vector<ValueId> stacks = {};  // scanned inputs, their scanned axis first
  ScanAxes axes = {};
  size_t scanned = 0;  // outputs
  int64_t trips = -1;
};

ScanCall read_scan(NodeContext& c) {
  Emitter& e = c.emit();
  ScanCall call{c.graph_attr("body"), c.all_inputs()};
  const int64_t scans = c.int_attr("num_scan_inputs"), total = std::ssize(call.state);
  if (scans < 1 || scans > total) throw UserError("attribute 'num_scan_inputs' is {} for {} inputs", scans, total);
  const size_t states = static_cast<size_t>(total - scans);
  if (static_cast<size_t>(call.body.output_size()) < states) throw UserError("the body has too few outputs");
  call.scanned = call.body.output_size() - states;
  call.axes = {per_value(c, "scan_input_axes", scans), per_value(c, "scan_input_directions", scans),
               per_value(c, "scan_output_axes", call.scanned), per_value(c, "scan_output_directions", call.scanned)};
  for (int64_t s = 0; s < scans; ++s) {
    const ValueId x = call.state[states + s];
    const int64_t axis = normalize_axis(call.axes.input_axes[s], e.rank(x));
    const int64_t extent = e.shape(x)[axis];
    if (call.trips >= 0 && extent != call.trips)
      throw UserError("scanned inputs have {} and {} elements", call.trips, extent);
    call.trips = extent;
    std::vector<int64_t> perm = sequence(e.rank(x));
    std::rotate(perm.begin(), perm.begin() + axis, perm.begin() + axis + 1);
    call.stacks.push_back(e.transpose(x, perm));
  }
  call.state.resize(states);
  return call;
}

std::optional<Outputs> scan_of_turns(NodeContext& c, const ScanCall& call) {
  Emitter& e = c.emit();
  LoopBody loop(c.importer().builder(), e.name());
  std::vector<ValueId> inputs = mapped(call.state, [&](ValueId first) { return loop.carried(first); });
  for (size_t s = 0; s < call.stacks.size(); ++s)
    inputs.push_back(loop.row(call.stacks[s], order_of(call.axes.input_directions[s])));
  const auto out = c.importer().import_turn(call.body, c.scope(), loop, inputs, body_prefix(c, "turn"));
  if (!out) return std::nullopt;
  std::vector<LoopBody::Left> left;
  std::vector<LoopBody::Row> rows;
  for (size_t k = 0; k < call.state.size(); ++k) {
    if (loop.builder().type(out->at(k)) != e.type(call.state[k])) return std::nullopt;
    left.push_back({out->at(k)});
  }
  for (size_t k = 0; k < call.scanned; ++k)
    rows.push_back({out->at(call.state.size() + k), order_of(call.axes.output_directions[k])});
  LoopBody::Made made = loop.finish(call.trips, left, rows);
  for (size_t k = 0; k < call.scanned; ++k) {
    const int64_t rank = e.rank(made.stacks[k]), axis = normalize_axis(call.axes.output_axes[k], rank);
    std::vector<int64_t> perm = sequence(rank);
    std::rotate(perm.begin(), perm.begin() + 1, perm.begin() + axis + 1);
    made.last.push_back(e.transpose(made.stacks[k], perm));
  }
  return made.last;
}

Outputs unrolled_scan(NodeContext& c, ScanCall call) {
  Emitter& e = c.emit();
  if (call.trips < 1 || call.trips > kMaxTrips)
    throw Unsupported("it runs {} times; 1 to {} are supported", call.trips, kMaxTrips);
  std::vector<std::vector<ValueId>> slices, rows(call.scanned);
  for (size_t s = 0; s < call.stacks.size(); ++s) {
    slices.push_back(e.rows(call.stacks[s], 0));
    if (call.axes.input_directions[s] != 0) std::ranges::reverse(slices.back());
  }
  for (int64_t i = 0; i < call.trips; ++i) {
    std::vector<ValueId> inputs = call.state;
    for (const std::vector<ValueId>& each : slices) inputs.push_back(each[static_cast<size_t>(i)]);
    const Outputs out = c.importer().import_body(call.body, c.scope(), inputs, body_prefix(c, std::to_string(i)));
    for (size_t k = 0; k < call.state.size(); ++k) call.state[k] = out[k];
    for (size_t k = 0; k < call.scanned; ++k) rows[k].push_back(out[call.state.size() + k]);
  }
  for (size_t k = 0; k < call.scanned; ++k) {
    if (call.axes.output_directions[k] != 0) std::ranges::reverse(rows[k]);
    call.state.push_back(stack(e, rows[k], call.axes.output_axes[k]));
  }
  return call.state;
}

Outputs convert_scan(NodeContext& c) {
  ScanCall call = read_scan(c);
  if (call.trips > 1 && call.trips <= kMaxTurns && are_tensors(c, call.state)) {
    if (std::optional<Outputs> made = scan_of_turns(c, call)) return *made;
  }
  return unrolled_scan(c, std::move(call));
}

}  // namespace

std::vector<ConverterRow> control_rows() {
  return {{"If", 1, 0, convert_if}, {"Loop", 1, 0, convert_loop}, {"Scan", 9, 0, convert_scan}};
}

}  // namespace tw::frontend
