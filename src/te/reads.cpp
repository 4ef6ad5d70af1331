#include "te/reads.h"

#include <algorithm>
#include <set>

#include "support/join.h"

namespace tw::te {
namespace {

bool depends(const Program& program, const Compute& compute, const std::string& tensor, std::set<std::string>& seen) {
  bool found = false;
  visit_reads(compute, [&](const Expr& load) {
    if (found || !seen.insert(load->name).second) return;
    const Compute* producer = program.find_compute(load->name);
    found = load->name == tensor || (producer != nullptr && depends(program, *producer, tensor, seen));
  });
  return found;
}

}  // namespace

std::vector<Tensor> all_tensors(const Program& program) {
  std::vector<Tensor> tensors = program.inputs;
  for (const Compute& compute : program.computes) append(tensors, compute.outputs);
  return tensors;
}

Expr element_number(const Expr& load, const Shape& shape) {
  Expr number = int_imm(0);
  for (size_t d = 0; d < shape.size(); ++d) number = number * int_imm(shape[d]) + load.arg(d);
  return number;
}

void visit_reads(const Compute& compute, const std::function<void(const Expr&)>& f) {
  for (const Expr& body : compute.body) {
    visit(body, [&](const Expr& e) {
      if (e.op() == Op::kLoad) f(e);
    });
  }
}

std::vector<Expr> reads_of(const Compute& compute, const std::vector<Tensor>& tensors) {
  std::vector<Expr> reads;
  visit_reads(compute, [&](const Expr& load) {
    if (index_of(tensors, load->name, &Tensor::name) >= 0) reads.push_back(load);
  });
  return reads;
}

bool reads(const Expr& e, const std::string& tensor) {
  bool found = false;
  visit(e, [&](const Expr& x) { found = found || (x.op() == Op::kLoad && x->name == tensor); });
  return found;
}

Expr read_from(const Expr& load, const std::string& tensor) {
  ExprNode node = *load;
  node.name = tensor;
  return Expr(std::make_shared<const ExprNode>(std::move(node)));
}

int count_reads(const Compute& compute, const std::string& tensor) {
  int reads = 0;
  visit_reads(compute, [&](const Expr& load) { reads += load->name == tensor; });
  return reads;
}

std::map<std::string, int> count_reads(const Program& program) {
  std::map<std::string, int> reads;
  for (const Compute& compute : program.computes) visit_reads(compute, [&](const Expr& load) { ++reads[load->name]; });
  return reads;
}

std::vector<Expr> distinct_reads(const Compute& compute, const std::string& tensor) {
  std::vector<Expr> reads;
  visit_reads(compute, [&](const Expr& load) {
    const bool known = std::ranges::any_of(reads, [&](const Expr& read) { return equal(read, load); });
    if (load->name == tensor && !known) reads.push_back(load);
  });
  return reads;
}

bool depends_on(const Program& program, const Compute& compute, const std::string& tensor) {
  std::set<std::string> seen;
  return depends(program, compute, tensor, seen);
}

const Axis* own_axis(const Compute& compute, const Expr& load, size_t d) {
  const Expr& index = load.arg(static_cast<int>(d));
  const bool unit = index.is_int(0) && d < compute.axes.size() && compute.axes[d].extent == 1;  // its only value
  if (unit) return &compute.axes[d];
  const int64_t k = index.is_var() ? index_of(compute.axes, index->name, &Axis::name) : -1;
  return k < 0 ? nullptr : &compute.axes[k];
}

std::optional<int64_t> largest_index(const Program& program, const std::string& tensor) {
  int64_t largest = 0;
  for (const Compute& c : program.computes) {
    for (const Expr& body : c.body) {
      visit(body, [&](const Expr& e) {
        if (e.op() == Op::kMin && e.arg(1).op() == Op::kIntImm && reads(e.arg(0), tensor))
          largest = std::max(largest, e.arg(1)->value);
      });
    }
  }
  return largest < 1 ? std::nullopt : std::optional(largest);
}

size_t own_axes(const Compute& compute, const Expr& load) {
  size_t own = 0;
  while (own < load->args.size() && own < compute.axes.size() && own_axis(compute, load, own) == &compute.axes[own])
    ++own;
  return own;
}

bool reads_own_point(const Compute& compute, const std::string& tensor) {
  bool own = true;
  visit_reads(compute, [&](const Expr& load) {
    if (load->name != tensor) return;
    own = own && load->args.size() == compute.axes.size() && own_axes(compute, load) == compute.axes.size();
  });
  return own;
}

int64_t common_divisor(const Program& program) {
  int64_t product = 1;
  const auto take = [&](const Expr& e) {
    if (e.op() != Op::kFloorDiv && e.op() != Op::kFloorMod) return;
    const Expr& divisor = e.arg(1);
    if (divisor.op() != Op::kIntImm || __builtin_mul_overflow(product, divisor->value, &product)) product = 0;
  };
  for (const Compute& compute : program.computes) {
    for (const Expr& body : compute.body) visit(body, take);
  }
  return product;
}

}  // namespace tw::te
