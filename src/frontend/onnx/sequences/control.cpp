// Control flow: branches and loops that are known at import are inlined and unrolled.
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

// A condition that is not known runs both branches and selects: all operators are total, so the other one does no harm.
Outputs convert_if(NodeContext& c) {
  Emitter& e = c.emit();
  if (c.type(0).elements() != 1 || !c.type(0).type.is_bool()) throw UserError("the condition must be one bool");
  if (c.is_constant(0)) {
    c.ignore_attr("then_branch");
    c.ignore_attr("else_branch");
    return import_branch(c, c.constant(0, "cond").ints[0] != 0 ? "then_branch" : "else_branch");
  }
  const Outputs yes = import_branch(c, "then_branch");
  const Outputs no = import_branch(c, "else_branch");
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

// Stacks values of equal shape along a new first axis.
ValueId stack(Emitter& e, const std::vector<ValueId>& parts, int64_t axis) {
  const auto row = [&](ValueId part) { return e.unsqueeze(part, normalize_axis(axis, e.rank(part) + 1)); };
  return e.concat(mapped(parts, row), normalize_axis(axis, e.rank(parts[0]) + 1));
}

// body(iteration, condition, carried...) -> (condition, carried..., scanned...). The trip count or the condition must
// be known; each iteration is a copy of the body.
Outputs convert_loop(NodeContext& c) {
  const onnx::GraphProto& body = c.graph_attr("body");
  Emitter& e = c.emit();
  int64_t trips = c.has(0) ? c.const_int(0, "M") : kMaxTrips + 1;
  bool running = !c.has(1) || c.const_int(1, "cond") != 0;
  std::vector<ValueId> state;
  for (size_t k = 2; k < c.num_inputs(); ++k) state.push_back(c.input(k));
  if (body.output_size() < 1 + static_cast<int>(state.size())) throw UserError("the body has too few outputs");
  const size_t scanned = body.output_size() - 1 - state.size();
  std::vector<std::vector<ValueId>> rows(scanned);
  GraphBuilder& builder = c.importer().builder();
  for (int64_t i = 0; i < trips && running; ++i) {
    if (i >= kMaxTrips) throw Unsupported("it runs more than {} times", kMaxTrips);
    std::vector<ValueId> inputs{e.constant({.type = {DataType::i64(), {}}, .ints = {i}}),
                                e.scalar(1, DataType::boolean())};
    inputs.insert(inputs.end(), state.begin(), state.end());
    const Outputs out = c.importer().import_body(body, c.scope(), inputs, body_prefix(c, std::to_string(i)));
    for (size_t k = 0; k < state.size(); ++k) state[k] = out[1 + k];
    for (size_t k = 0; k < scanned; ++k) rows[k].push_back(out[1 + state.size() + k]);
    if (!builder.is_constant(out[0])) throw Unsupported("its condition is not known at compile time");
    if (builder.type(out[0]).elements() != 1) throw UserError("the body's condition must be one bool");
    running = builder.constant(out[0]).at(0) != 0;
  }
  for (size_t k = 0; k < scanned; ++k) {
    if (rows[k].empty()) throw Unsupported("it runs zero times, so the shapes of its scanned outputs are not known");
    state.push_back(stack(e, rows[k], 0));
  }
  return state;
}

struct ScanAxes {
  std::vector<int64_t> input_axes, input_directions, output_axes, output_directions;
};

std::vector<int64_t> per_value(NodeContext& c, const std::string& key, size_t count) {
  std::vector<int64_t> list = c.ints_or(key, std::vector<int64_t>(count, 0));
  if (list.size() != count) throw UserError("attribute '{}' has {} values for {}", key, list.size(), count);
  return list;
}

// body(state..., slices...) -> (state..., scanned...), once for each element along the scanned axis.
Outputs convert_scan(NodeContext& c) {
  const onnx::GraphProto& body = c.graph_attr("body");
  Emitter& e = c.emit();
  const int64_t scans = c.int_attr("num_scan_inputs");
  const int64_t total = static_cast<int64_t>(c.num_inputs());
  if (scans < 1 || scans > total) throw UserError("attribute 'num_scan_inputs' is {} for {} inputs", scans, total);
  const size_t states = static_cast<size_t>(total - scans);
  if (static_cast<size_t>(body.output_size()) < states) throw UserError("the body has too few outputs");
  const size_t scanned = body.output_size() - states;
  const ScanAxes axes{per_value(c, "scan_input_axes", scans), per_value(c, "scan_input_directions", scans),
                      per_value(c, "scan_output_axes", scanned), per_value(c, "scan_output_directions", scanned)};
  std::vector<ValueId> all = c.all_inputs();
  std::vector<ValueId> state(all.begin(), all.begin() + static_cast<int64_t>(states));
  int64_t trips = -1;
  for (int64_t s = 0; s < scans; ++s) {
    const Shape& shape = e.shape(all[states + s]);
    const int64_t extent = shape.at(normalize_axis(axes.input_axes[s], static_cast<int64_t>(shape.size())));
    if (trips >= 0 && extent != trips) throw UserError("scanned inputs have {} and {} elements", trips, extent);
    trips = extent;
  }
  if (trips < 1 || trips > kMaxTrips) throw Unsupported("it runs {} times; 1 to {} are supported", trips, kMaxTrips);
  std::vector<std::vector<ValueId>> slices, rows(scanned);
  for (int64_t s = 0; s < scans; ++s) {
    const ValueId x = all[states + s];
    slices.push_back(e.rows(x, normalize_axis(axes.input_axes[s], e.rank(x))));
    if (axes.input_directions[s] != 0) std::ranges::reverse(slices.back());
  }
  for (int64_t i = 0; i < trips; ++i) {
    std::vector<ValueId> inputs = state;
    for (const std::vector<ValueId>& each : slices) inputs.push_back(each[static_cast<size_t>(i)]);
    const Outputs out = c.importer().import_body(body, c.scope(), inputs, body_prefix(c, std::to_string(i)));
    for (size_t k = 0; k < states; ++k) state[k] = out[k];
    for (size_t k = 0; k < scanned; ++k) {
      rows[k].push_back(out[states + k]);
    }
  }
  for (size_t k = 0; k < scanned; ++k) {
    if (axes.output_directions[k] != 0) std::ranges::reverse(rows[k]);
  }
  for (size_t k = 0; k < scanned; ++k) state.push_back(stack(e, rows[k], axes.output_axes[k]));
  return state;
}

}  // namespace

std::vector<ConverterRow> control_rows() {
  return {{"If", 1, 0, convert_if}, {"Loop", 1, 0, convert_loop}, {"Scan", 9, 0, convert_scan}};
}

}  // namespace tw::frontend
