#include "codegen/llvm/linear_index.h"

#include <algorithm>

#include "support/error.h"

namespace tw::codegen::cpu {
namespace {

void add_term(std::vector<LinearTerm>& terms, const Expr& atom, int64_t scale) {
  const auto known = std::ranges::find_if(terms, [&](const LinearTerm& term) { return equal(term.atom, atom); });
  if (known == terms.end()) {
    terms.push_back({atom, scale});
  } else {
    known->scale += scale;
  }
}

// Adds scale * e to `out`. Only i64 is taken apart: narrower sums wrap at their own width.
void collect(const Expr& e, int64_t scale, LinearIndex& out) {
  const bool vector = e.type().is_vector();
  if (e.type().scalar() != ScalarType::kI64) return add_term(vector ? out.vectors : out.terms, e, scale);
  switch (e.op()) {
    case Op::kIntImm:
      out.constant += scale * e->value;
      return;
    case Op::kAdd:
      collect(e.arg(0), scale, out);
      return collect(e.arg(1), scale, out);
    case Op::kSub:
      collect(e.arg(0), scale, out);
      return collect(e.arg(1), -scale, out);
    case Op::kNeg:
      return collect(e.arg(0), -scale, out);
    case Op::kBroadcast:
      return collect(e.arg(0), scale, out);
    case Op::kMul: {
      const auto constant = [](const Expr& x) { return x.op() == Op::kBroadcast ? x.arg(0) : x; };
      const Expr a = constant(e.arg(0));
      const Expr b = constant(e.arg(1));
      if (b.op() == Op::kIntImm) return collect(e.arg(0), scale * b->value, out);
      if (a.op() == Op::kIntImm) return collect(e.arg(1), scale * a->value, out);
      break;
    }
    case Op::kRamp:
      if (e.arg(1).op() != Op::kIntImm) break;
      collect(e.arg(0), scale, out);
      out.lane_stride += scale * e.arg(1)->value;
      return;
    default:
      break;
  }
  add_term(vector ? out.vectors : out.terms, e, scale);
}

}  // namespace

LinearIndex linearise(const Shape& shape, std::span<const Expr> indices) {
  TW_CHECK(indices.size() == shape.size(), "{} indices for shape {}", indices.size(), to_string(shape));
  const Shape strides = row_major_strides(shape);
  LinearIndex out;
  for (size_t d = 0; d < indices.size(); ++d) {
    out.lanes = std::max(out.lanes, indices[d].type().lanes());
    collect(indices[d], strides[d], out);
  }
  const auto vanished = [](const LinearTerm& term) { return term.scale == 0; };
  std::erase_if(out.terms, vanished);
  std::erase_if(out.vectors, vanished);
  return out;
}

}  // namespace tw::codegen::cpu
