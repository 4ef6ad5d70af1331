// The rules every te program keeps; broken ones are errors of whoever built it.

#include <set>

#include "support/error.h"
#include "te/te.h"

namespace tw::te {
namespace {

class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program) {}

  void run() {
    for (const Tensor& input : program_.inputs) declare(input);
    for (const Compute& compute : program_.computes) check_compute(compute);
    for (const std::string& output : program_.outputs) {
      TW_CHECK(tensors_.contains(output), "te program '{}': unknown output '{}'", program_.name, output);
    }
  }

 private:
  void declare(const Tensor& tensor) {
    TW_CHECK(!tensor.name.empty(), "te program '{}': a tensor has no name", program_.name);
    TW_CHECK(!tensor.type.is_vector(), "tensor '{}' has the vector type {}", tensor.name, to_string(tensor.type));
    for (int64_t extent : tensor.shape)
      TW_CHECK(extent >= 0, "tensor '{}' of shape {}", tensor.name, to_string(tensor.shape));
    TW_CHECK(tensors_.emplace(tensor.name, &tensor).second, "te program '{}': two tensors named '{}'", program_.name,
             tensor.name);
  }

  void check_compute(const Compute& compute) {
    TW_CHECK(!compute.outputs.empty(), "te program '{}': a compute without output", program_.name);
    TW_CHECK(compute.body.size() == compute.outputs.size(), "compute '{}': {} bodies for {} outputs", compute.name(),
             compute.body.size(), compute.outputs.size());
    std::set<std::string> axes;
    for (const Axis& axis : compute.axes) declare_axis(compute, axis, axes);
    for (const Axis& axis : compute.reduce_axes) declare_axis(compute, axis, axes);
    for (size_t k = 0; k < compute.outputs.size(); ++k) {
      const Tensor& output = compute.outputs[k];
      check_expr(compute, compute.body[k], check_shape(compute, k, axes));
      TW_CHECK(compute.body[k].type() == output.type, "'{}' is {} but its body {}", output.name, to_string(output.type),
               to_string(compute.body[k].type()));
    }
    if (compute.needed) {
      TW_CHECK(compute.is_reduction() && compute.needed.type().is_bool(), "compute '{}': needed points of no reduction",
               compute.name());
      check_expr(compute, compute.needed, axes);
    }
    if (compute.is_reduction()) check_combiner(compute);
    for (const Tensor& output : compute.outputs) declare(output);
  }

  // The axes that output `k` has, of all of `axes`.
  static std::set<std::string> check_shape(const Compute& compute, size_t k, std::set<std::string> axes) {
    const Shape& is = compute.outputs[k].shape;
    Shape shape = shape_of(compute.axes);
    if (k > 0 && compute.combiner.kind == CombinerKind::kTuple && is.size() < shape.size()) {
      for (size_t d = is.size(); d < shape.size(); ++d) axes.erase(compute.axes[d].name);
      shape.resize(is.size());
    }
    TW_CHECK(is == shape, "'{}' has shape {} but axes {}", compute.outputs[k].name, to_string(is), to_string(shape));
    return axes;
  }

  void declare_axis(const Compute& compute, const Axis& axis, std::set<std::string>& axes) {
    TW_CHECK(axis.extent >= 0, "compute '{}': axis '{}' of extent {}", compute.name(), axis.name, axis.extent);
    TW_CHECK(axes.insert(axis.name).second, "compute '{}': two axes named '{}'", compute.name(), axis.name);
  }

  void check_combiner(const Compute& compute) {
    const Combiner& combiner = compute.combiner;
    const size_t count = compute.outputs.size();
    TW_CHECK(combiner.identity.size() == count, "compute '{}': {} identities for {} outputs", compute.name(),
             combiner.identity.size(), count);
    for (size_t k = 0; k < count; ++k) {
      TW_CHECK(combiner.identity[k].type() == compute.outputs[k].type, "compute '{}': identity of type {}",
               compute.name(), to_string(combiner.identity[k].type()));
    }
    if (combiner.kind != CombinerKind::kTuple) return;  // each output by itself
    TW_CHECK(combiner.lhs.size() == count && combiner.rhs.size() == count && combiner.result.size() == count,
             "compute '{}': tuple combiner of {}, {} and {} parts for {} outputs", compute.name(), combiner.lhs.size(),
             combiner.rhs.size(), combiner.result.size(), count);
    std::map<std::string, DataType> sides;
    for (size_t k = 0; k < count; ++k) {
      for (const std::string& name : {combiner.lhs[k], combiner.rhs[k]}) {
        TW_CHECK(sides.emplace(name, compute.outputs[k].type).second, "compute '{}': combiner variable '{}' twice",
                 compute.name(), name);
      }
    }
    for (size_t k = 0; k < count; ++k) {
      std::map<std::string, DataType> known = sides;
      for (size_t j = 0; j < count; ++j) {
        if (compute.outputs[j].shape.size() <= compute.outputs[k].shape.size()) continue;
        known.erase(combiner.lhs[j]), known.erase(combiner.rhs[j]);
      }
      check_result(compute, combiner.result[k], compute.outputs[k].type, known);
    }
  }

  static void check_result(const Compute& compute, const Expr& result, DataType type,
                           const std::map<std::string, DataType>& sides) {
    TW_CHECK(bool(result) && result.type() == type, "compute '{}': combiner result is no {}", compute.name(),
             to_string(type));
    visit(result, [&](const Expr& e) {
      TW_CHECK(e.op() != Op::kLoad, "compute '{}': combiner reads tensor '{}'", compute.name(), e->name);
      if (!e.is_var()) return;
      const auto it = sides.find(e->name);
      TW_CHECK(it != sides.end() && it->second == e.type(), "compute '{}': combiner variable '{}' of type {}",
               compute.name(), e->name, to_string(e.type()));
    });
  }

  void check_expr(const Compute& compute, const Expr& body, const std::set<std::string>& axes) {
    TW_CHECK(body, "compute '{}' has an empty body", compute.name());
    visit(body, [&](const Expr& e) {
      TW_CHECK(!e.type().is_vector(), "compute '{}': vector expression {}", compute.name(), to_string(e));
      if (e.op() == Op::kLoad) check_load(compute, e);
      if (!e.is_var()) return;
      TW_CHECK(axes.contains(e->name), "compute '{}': '{}' is no axis", compute.name(), e->name);
      TW_CHECK(e.type() == DataType::i64(), "compute '{}': axis '{}' used as {}", compute.name(), e->name,
               to_string(e.type()));
    });
  }

  void check_load(const Compute& compute, const Expr& e) {
    const auto it = tensors_.find(e->name);
    TW_CHECK(it != tensors_.end(), "compute '{}' reads '{}', which no input or earlier compute defines", compute.name(),
             e->name);
    const Tensor& tensor = *it->second;
    const size_t rank = e->args.size() - (e->predicated ? 1 : 0);
    TW_CHECK(rank == tensor.shape.size(), "compute '{}' reads '{}' of shape {} at {} indices", compute.name(),
             tensor.name, to_string(tensor.shape), rank);
    TW_CHECK(e.type() == tensor.type, "compute '{}' reads '{}' of type {} as {}", compute.name(), tensor.name,
             to_string(tensor.type), to_string(e.type()));
    for (size_t d = 0; d < rank; ++d) {
      TW_CHECK(e.arg(d).type() == DataType::i64(), "compute '{}': index {} of '{}' is {}", compute.name(), d,
               tensor.name, to_string(e.arg(d).type()));
    }
    TW_CHECK(!e->predicated || e.arg(rank).type().is_bool(), "compute '{}': predicate of '{}' is no bool",
             compute.name(), tensor.name);
  }

  const Program& program_;
  std::map<std::string, const Tensor*> tensors_;
};

}  // namespace

void verify(const Program& program) { Verifier(program).run(); }

}  // namespace tw::te
