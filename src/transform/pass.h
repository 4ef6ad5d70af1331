// Graph passes: each is a row of the table in pipeline.cpp, run by one runner that disables, times, verifies and dumps.
#pragma once
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/data_type.h"
#include "core/layout.h"
#include "core/precision.h"
#include "core/target_info.h"
#include "graph/op.h"
#include "support/pass_runner.h"
#include "transform/in_place.h"
#include "transform/names.h"
#include "transform/reason_log.h"

namespace tw::transform {

struct TransformContext {
  const graph::OpTable& ops;
  TargetInfo target;
  Precision precision = Precision::kDefault;
  DataType dtype = DataType::f32();  // f32, f16 or bf16: of what the model has in f32 (pass mixed-precision)
  std::map<std::string, std::string, std::less<>> variants = {};  // autotuned pass -> chosen variant
  std::string_view variant = {};                                  // of the pass that runs; empty: its usual one
  const ValueLayouts* layouts = nullptr;  // of a plan that is replayed: they hold for the values that it names
  const ValueLayouts* between = nullptr;  // of values between groups: measured, or of a plan
  ValueLayouts* chosen = nullptr;         // where passes note the layouts that they give
  ReasonLog* log = nullptr;               // where passes say why; null: nobody asks
  std::vector<StateNames> states = {};
};

/// Variants of an autotuned pass (ADR 0020): nothing; whatever may pay; the same, with room for whole lines of memory;
/// products one after the other left apart; operands of products computed where these read them.
inline constexpr std::string_view kOff = "off", kAlways = "always", kPadToCacheLine = "pad-to-cache-line",
                                  kProductsApart = "products-apart", kOperandsComputed = "operands-computed";

struct GraphPass {
  std::string_view name;
  graph::Graph (*run)(const graph::Graph& graph, const TransformContext& context);
  std::string_view holds;                           // what is true afterwards
  bool optional;                                    // may be switched off
  std::span<const std::string_view> variants = {};  // besides its usual one, measured against it; of optional passes
  std::string_view family = {};  // of constructors that make the groups it forms: without it the pass is off
};

/// The passes in order.
std::span<const GraphPass> pipeline();

/// Whether the pass comes when values are what groups will read and write: it changes no constant.
bool forms_groups(std::string_view pass);
/// The last pass of which that is not so.
std::string_view last_before_groups();

using RunOptions = PassOptions<graph::Graph>;

/// Runs the pipeline; verifies the input and after every pass. The result's nodes are all groups.
graph::Graph transform(const graph::Graph& graph, const TransformContext& context, const RunOptions& options);

/// The row named `name`; UsageError listing all names when there is none.
const GraphPass& find_pass(std::string_view name);

}  // namespace tw::transform
