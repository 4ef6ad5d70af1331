#include "tests/harness/loop_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "support/error.h"
#include "te/materialize.h"

namespace tw::testing {
namespace {

// Spreads -5 .. 5 without a period that a dimension of the tests has.
int64_t whole_number(size_t i, int salt) {
  return static_cast<int64_t>((i * 7 + static_cast<size_t>(salt) * 5) % 11) - 5;
}

te::TensorValues whole_tensor(const te::Tensor& t, int salt) {
  te::TensorValues v = te::zeros(t.type, t.shape);
  for (size_t i = 0; i < v.floats.size(); ++i) v.floats[i] = static_cast<double>(whole_number(i, salt));
  for (size_t i = 0; i < v.ints.size(); ++i) v.ints[i] = whole_number(i, salt);
  return v;
}

loop::HostBuffer host_buffer(const te::TensorValues& v) { return {v.type, v.shape, v.floats, v.ints}; }

}  // namespace

te::ValueMap whole_inputs(const te::Program& program) {
  te::ValueMap inputs;
  int salt = 0;
  for (const te::Tensor& in : program.inputs) inputs[in.name] = whole_tensor(in, salt++);
  return inputs;
}

te::ValueMap special_inputs(const te::Program& program, const std::set<std::string>& constants) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
  te::ValueMap inputs = whole_inputs(program);
  for (auto& [name, values] : inputs) {
    // Large ones in the first input only: of several the sum may cancel. Of f16 it stays below the largest number.
    const bool half = values.type.is_half(), first = name == program.inputs.front().name;
    const double large = first ? half ? 1e3 : 1e6 : 5, larger = first ? half ? -1e3 : 0x1p66 : -5;
    const std::vector<double> special = {large, kNan, -kInf, larger, kInf};
    if (constants.contains(name)) {
      std::ranges::replace(values.floats, 0.0, 1.0);
    } else if (values.floats.size() > special.size()) {
      for (size_t k = 0; k < special.size(); ++k)
        values.floats[(2 * k + 1) * values.floats.size() / (2 * special.size())] = special[k];
    }
  }
  return inputs;
}

te::TensorValues stored_in(const te::TensorValues& values, const Layout& layout) {
  const auto* data = reinterpret_cast<const std::byte*>(values.floats.data());
  const std::vector<std::byte> moved = te::materialize({data, values.floats.size() * 8}, 8, values.shape, layout);
  te::TensorValues out = te::zeros(values.type, layout.storage_shape(values.shape));
  std::memcpy(out.floats.data(), moved.data(), moved.size());
  return out;
}

loop::Memory run_loops(const loop::Program& loops, const te::ValueMap& inputs) {
  loop::Memory memory;
  for (const auto& [name, values] : inputs) memory[name] = host_buffer(values);
  for (const loop::Kernel& kernel : loops.kernels) {
    for (const loop::Buffer& b : kernel.params) memory.emplace(b.name, host_buffer(te::zeros(b.type, b.shape)));
  }
  loop::interpret(loops, memory);
  return memory;
}

std::string first_difference(const te::Program& program, const te::ValueMap& want, const loop::Memory& memory,
                             double tolerance) {
  for (const std::string& name : program.outputs) {
    const te::TensorValues& expected = want.at(name);
    const auto found = memory.find(name);
    if (found == memory.end()) return fmt::format("nothing writes {}", name);
    const loop::HostBuffer& got = found->second;
    // A tile may cut an axis of an output in two: its elements lie where they did.
    if (num_elements(got.shape) != num_elements(expected.shape)) return fmt::format("{} has another shape", name);
    for (size_t i = 0; i < expected.floats.size(); ++i) {
      const double error = std::fabs(got.floats[i] - expected.floats[i]);
      if (error <= tolerance * (1 + std::fabs(expected.floats[i])) || got.floats[i] == expected.floats[i]) continue;
      if (std::isnan(got.floats[i]) && std::isnan(expected.floats[i])) continue;
      return fmt::format("{}[{}] is {}, not {}", name, i, got.floats[i], expected.floats[i]);
    }
    for (size_t i = 0; i < expected.ints.size(); ++i) {
      if (got.ints[i] != expected.ints[i])
        return fmt::format("{}[{}] is {}, not {}", name, i, got.ints[i], expected.ints[i]);
    }
  }
  return {};
}

std::string refusal(const te::Program& program, const schedule::Schedule& schedule) {
  try {
    schedule::apply(program, schedule);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

std::string refused_for(const te::Program& program, const schedule::Schedule& schedule) {
  const std::string text = refusal(program, schedule);
  const size_t named = text.find("': ");
  return named == std::string::npos ? text : text.substr(named + 3);
}

}  // namespace tw::testing
