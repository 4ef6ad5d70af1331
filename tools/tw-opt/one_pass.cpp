#include "one_pass.h"

#include <algorithm>
#include <map>

#include "graph/graph.h"
#include "lower/pass.h"
#include "ops/list.h"
#include "schedule/schedule.h"
#include "support/error.h"
#include "support/lexer.h"
#include "targets/registry.h"
#include "te/te.h"
#include "transform/pass.h"

namespace tw::opt {
namespace {

constexpr std::string_view kTe = "te";
constexpr std::string_view kSchedule = "schedule";
constexpr std::string_view kFailedCheck = " does not hold: ";  // between condition and message of a failed TW_CHECK

template <typename Row>
const Row* find_row(std::span<const Row> rows, std::string_view name) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

// What a person wrote may break a rule of the IR: that is no defect of ours.
template <typename Verify>
void verify_input(const Verify& verify) {
  try {
    verify();
  } catch (const InternalError& error) {
    std::string_view why = error.what();
    if (const size_t check = why.find(kFailedCheck); check != std::string_view::npos)
      why.remove_prefix(check + kFailedCheck.size());
    throw UserError(fmt::format("the input breaks a rule: {}", why));
  }
}

Shape read_shape(Lexer& lexer) {
  Shape shape;
  lexer.expect("[");
  while (!lexer.accept("]")) {
    shape.push_back(lexer.integer("an extent"));
    if (!lexer.is("]")) lexer.expect(",");
  }
  return shape;
}

// Zeros for every "const NAME : TYPE[SHAPE] .. = data REFERENCE" of a graph's text.
std::map<std::string, graph::Bytes> zero_constants(std::string_view text) {
  std::map<std::string, graph::Bytes> zeros;
  Lexer lexer(text);
  while (!lexer.at_end()) {
    if (!lexer.accept("const")) {
      lexer.next();
      continue;
    }
    lexer.name();
    lexer.expect(":");
    const auto type = parse_data_type(lexer.identifier("an element type"));
    const Shape shape = read_shape(lexer);
    while (!lexer.at_end() && !lexer.accept("=")) lexer.next();
    if (!type || !lexer.accept("data")) continue;
    zeros[lexer.name()] = share(std::vector<std::byte>(TensorType{*type, shape}.bytes()));
  }
  return zeros;
}

std::string run_schedule(const Options& options, std::string_view text) {
  const te::Program program = te::parse_program(text);
  verify_input([&] { te::verify(program); });
  const loop::Program result = schedule::apply(program, schedule::parse_schedule(options.schedule));
  loop::verify(result);
  return loop::to_string(result);
}

std::string run_loop_pass(const lower::LoopPass& pass, const Options& options, std::string_view text) {
  const loop::Program program = loop::parse_program(text);
  verify_input([&] { loop::verify(program); });
  const loop::Program result = pass.run(program, {targets::find_target(options.target).info.vector_bytes});
  loop::verify(result, pass.rules);
  return loop::to_string(result);
}

graph::Graph read_graph(const Options& options, const graph::OpTable& ops, std::string_view text) {
  const auto constants = options.zero_constants ? zero_constants(text) : std::map<std::string, graph::Bytes>();
  graph::Graph program = graph::parse_graph(text, constants);
  verify_input([&] { graph::verify(program, ops); });
  return program;
}

std::string run_te(const Options& options, std::string_view text) {
  const graph::OpTable ops = ops::all_ops();
  const graph::Graph program = read_graph(options, ops, text);
  std::string out;
  for (const graph::Node& node : program.nodes) {
    if (!node.is_group())
      throw UserError(fmt::format("node '{}' ({}) is no group; run --pass=partition first", node.name, node.op));
    if (!out.empty()) out += "\n";
    out += te::to_string(graph::to_te(*node.body, ops).program);
  }
  return out;
}

std::string run_graph_pass(const transform::GraphPass& pass, const Options& options, std::string_view text) {
  const graph::OpTable ops = ops::all_ops();
  const graph::Graph program = read_graph(options, ops, text);
  transform::TransformContext context{ops, targets::find_target(options.target).info};
  context.dtype = parse_data_type(options.dtype).value_or(DataType::f32());
  const graph::Graph result = pass.run(program, context);
  graph::verify(result, ops);
  return graph::to_string(result);
}

std::string line(std::string_view ir, std::string_view name, std::string_view holds, bool optional) {
  return fmt::format("{:<6} {:<24} {}{}\n", ir, name, holds, optional ? "" : " (required)");
}

}  // namespace

std::string run_one_pass(const Options& options, std::string_view text) {
  if (options.pass != kSchedule && !options.schedule.empty()) {
    throw UsageError(fmt::format("--schedule belongs to --pass=schedule, not to '{}'", options.pass));
  }
  if (options.pass == kTe) return run_te(options, text);
  if (options.pass == kSchedule) return run_schedule(options, text);
  if (const auto* pass = find_row(lower::pipeline(), options.pass)) return run_loop_pass(*pass, options, text);
  if (const auto* pass = find_row(transform::pipeline(), options.pass)) return run_graph_pass(*pass, options, text);
  throw UsageError(fmt::format("no pass '{}'; --list shows all", options.pass));
}

std::string list_passes() {
  std::string out;
  for (const transform::GraphPass& pass : transform::pipeline())
    out += line("graph", pass.name, pass.holds, pass.optional);
  out += line("graph", kTe, "every group is a te program: maths without order, logical layouts", false);
  out += line("te", kSchedule, "loops, buffers and guards are explicit; needs --schedule", false);
  for (const lower::LoopPass& pass : lower::pipeline()) out += line("loop", pass.name, pass.holds, pass.optional);
  return out;
}

}  // namespace tw::opt
