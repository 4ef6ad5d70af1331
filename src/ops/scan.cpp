// cum_sum(x), cum_prod(x): running sum or product along attribute axis (int), numbers.
//   attributes exclusive (int, 0): without the element itself; reverse (int, 0): from the end
// As a te each element sums a masked line: quadratic in the axis.
#include "ops/common.h"
#include "ops/families.h"

namespace tw::ops {
namespace {

struct Scan {
  int64_t axis;
  bool exclusive, reverse, product;
};

Scan scan_of(const OpCall& call) {
  return {normalize_axis(call, call.node.int_attr("axis"), call.inputs[0].shape.size()),
          call.node.int_attr_or("exclusive", 0) != 0, call.node.int_attr_or("reverse", 0) != 0,
          call.node.op == "cum_prod"};
}

Types infer(const OpCall& call) {
  require(call, !call.inputs[0].type.is_bool(), "the input is {}, expected numbers", to_string(call.inputs[0]));
  scan_of(call);
  return {call.inputs[0]};
}

Tensors te_scan(const OpCall& call, te::Builder& builder, const Tensors& inputs) {
  const te::Tensor& x = inputs[0];
  const Scan scan = scan_of(call);
  const bool direct = math_type(x.type) == x.type;
  const te::CombinerKind kind = scan.product ? te::CombinerKind::kProd : te::CombinerKind::kSum;
  const te::Tensor total = builder.reduce(tensor_name(call, direct ? "" : "acc"), x.shape, {x.shape[scan.axis]}, kind,
                                          [&](Exprs i, const Exprs& r) {
                                            const Expr here = scan.reverse ? r[0] : i[scan.axis];
                                            const Expr other = scan.reverse ? i[scan.axis] : r[0];
                                            const Expr counted = scan.exclusive ? other < here : other <= here;
                                            i[scan.axis] = r[0];
                                            const Expr value = read(x, i);
                                            return select(counted, value, imm(value.type(), scan.product ? 1 : 0));
                                          });
  return {cast_output(call, builder, total, x.type)};
}

// Runs along one line of `extent` elements, `stride` apart.
template <typename T, typename Combine>
void run_line(const Scan& scan, const T* x, T* y, int64_t extent, int64_t stride, const Combine& combine) {
  T total = scan.product ? 1 : 0;
  for (int64_t k = 0; k < extent; ++k) {
    const int64_t at = (scan.reverse ? extent - 1 - k : k) * stride;
    if (scan.exclusive) y[at] = total;
    total = combine(total, x[at]);
    if (!scan.exclusive) y[at] = total;
  }
}

void reference(const OpCall& call, Refs inputs, RefTensor& y) {
  const RefTensor& x = inputs[0];
  const Scan scan = scan_of(call);
  const int64_t extent = x.type.shape[scan.axis];
  const auto add_ints = [&](int64_t a, int64_t b) {
    const auto p = static_cast<uint64_t>(a), q = static_cast<uint64_t>(b);
    return static_cast<int64_t>(scan.product ? p * q : p + q);
  };
  const auto add_floats = [&](double a, double b) { return scan.product ? a * b : a + b; };
  for_each_line(x.type.shape, scan.axis, [&](int64_t start, int64_t stride) {
    if (x.is_float()) {
      run_line(scan, x.floats.data() + start, y.floats.data() + start, extent, stride, add_floats);
    } else {
      run_line(scan, x.ints.data() + start, y.ints.data() + start, extent, stride, add_ints);
    }
  });
  if (!x.is_float()) y.round_to_type();
}

}  // namespace

std::vector<OpDef> scan_ops() {
  return {{"cum_sum", OpClass::kReduction, infer, te_scan, filled<infer, reference>},
          {"cum_prod", OpClass::kReduction, infer, te_scan, filled<infer, reference>}};
}

}  // namespace tw::ops
