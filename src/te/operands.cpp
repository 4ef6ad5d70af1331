#include "te/operands.h"

#include <algorithm>
#include <set>

#include "expr/word_product.h"
#include "support/error.h"
#include "support/join.h"
#include "te/reads.h"

namespace tw::te {
namespace {

// Who reads a tensor: an operand by its number, or anything else.
using Reader = int;
constexpr Reader kOthers = INT32_MAX;  // the last one, so that a first operand keeps the tensor

struct OperandRead {
  Expr load;
  Reader operand;
};

void add_factors(const Expr& e, std::vector<Expr>& factors) {
  if (e.op() == Op::kMul) {
    add_factors(e.arg(0), factors);
    add_factors(e.arg(1), factors);
  } else {
    factors.push_back(e);
  }
}

// The factors of the products that `c` sums, of numbers or of words; none when it sums something else.
std::vector<Expr> factors_of(const Compute& c) {
  if (!c.is_reduction() || c.combiner.kind != CombinerKind::kSum || c.body.size() != 1) return {};
  Expr term = c.body[0];
  if (term.op() == Op::kSelect) term = term.arg(1);  // summed under a condition
  if (const std::optional<WordOperands> words = match_word_product(term)) return {words->a, words->b};
  std::vector<Expr> factors;
  if (term.op() == Op::kMul) add_factors(term, factors);
  return factors;
}

// Whether `load` gives the same element at several points of the axes of `c`.
bool is_reused(const Compute& c, const Expr& load) {
  return std::ranges::any_of(c.axes, [&](const Axis& axis) {
    return axis.extent > 1 && std::ranges::none_of(load->args, [&](const Expr& i) { return uses_var(i, axis.name); });
  });
}

// Whether an element of `c` is one element of another tensor, chosen by its place, or a number.
bool only_rearranges(const Expr& e) {
  if (e.op() == Op::kSelect) return only_rearranges(e.arg(1)) && only_rearranges(e.arg(2));
  return e.op() == Op::kLoad || e.op() == Op::kFloatImm || e.op() == Op::kIntImm;
}

class Separator {
 public:
  explicit Separator(const Program& program) : program_(program), operands_(program.computes.size()) {}

  SeparateOperands run() {
    find_operands();
    find_readers();
    SeparateOperands out;
    out.program = program_;
    out.program.inputs.clear();
    out.program.computes.clear();
    for (const Tensor& t : all_tensors(program_)) names_.insert(t.name);
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      for (const std::string& name : copies_of(program_.inputs[i].name)) {
        out.program.inputs.push_back({name, program_.inputs[i].type, program_.inputs[i].shape});
        out.sources.push_back(i);
      }
    }
    for (size_t c = 0; c < program_.computes.size(); ++c) add_compute(c, out.program);
    return out;
  }

 private:
  void find_operands() {
    Reader next = 0;
    for (size_t c = 0; c < operands_.size(); ++c) {
      for (const Expr& factor : factors_of(program_.computes[c])) {
        visit(factor, [&](const Expr& e) {
          const bool known = std::ranges::any_of(operands_[c], [&](const auto& o) { return equal(o.load, e); });
          if (e.op() == Op::kLoad && !known && is_reused(program_.computes[c], e)) operands_[c].push_back({e, next});
        });
        ++next;
      }
    }
  }

  // From the last compute backwards: all readers of a compute are known before its own reads.
  void find_readers() {
    for (size_t c = operands_.size(); c-- > 0;) {
      const Compute& compute = program_.computes[c];
      const std::set<Reader> through = passes_on(compute) ? readers_[compute.name()] : std::set<Reader>{kOthers};
      visit_reads(compute, [&](const Expr& load) {
        const Reader operand = operand_of(c, load);
        if (operand == kOthers) readers_[load->name].insert(through.begin(), through.end());
        if (operand != kOthers) readers_[load->name].insert(operand);
      });
    }
  }

  Reader operand_of(size_t c, const Expr& load) const {
    const auto found = std::ranges::find_if(operands_[c], [&](const auto& o) { return equal(o.load, load); });
    return found == operands_[c].end() ? kOthers : found->operand;
  }

  bool may_repeat(const Compute& c) const {
    return !c.is_reduction() && c.body.size() == 1 && !program_.is_output(c.name()) && only_rearranges(c.body[0]);
  }

  // Whether what `c` reads is read by the readers of `c`, each on its own.
  bool passes_on(const Compute& c) const {
    const auto readers = readers_.find(c.name());
    if (readers == readers_.end() || c.is_reduction() || c.body.size() != 1 || program_.is_output(c.name()))
      return false;
    return readers->second.size() == 1 || may_repeat(c);
  }

  // Names of a tensor, one for each of its readers.
  std::vector<std::string> copies_of(const std::string& tensor) {
    std::vector<std::string> all = {tensor};
    const std::set<Reader>& readers = readers_[tensor];
    for (auto r = readers.begin(); r != readers.end(); ++r) {
      if (r != readers.begin()) all.push_back(unique(tensor));
      copy_[{tensor, *r}] = all.back();
    }
    return all;
  }

  std::string unique(const std::string& tensor) {
    for (int n = 1;; ++n) {
      std::string name = fmt::format("{}_{}", tensor, n);
      if (names_.insert(name).second) return name;
    }
  }

  void add_compute(size_t c, Program& out) {
    const Compute& compute = program_.computes[c];
    const std::set<Reader> readers = readers_[compute.name()];
    if (readers.size() < 2 || !may_repeat(compute)) {
      const Reader through = passes_on(compute) ? *readers.begin() : kOthers;
      out.computes.push_back(renamed(c, through));
      return;
    }
    const std::vector<std::string> names = copies_of(compute.name());
    auto name = names.begin();
    for (const Reader reader : readers) {
      out.computes.push_back(renamed(c, reader));
      out.computes.back().outputs[0].name = *name++;
    }
  }

  // The compute as it reads the copies for its operands, and for its reader `through`.
  Compute renamed(size_t c, Reader through) const {
    Compute compute = program_.computes[c];
    std::unordered_map<const ExprNode*, Expr> done;
    for (Expr& body : compute.body) body = renamed(body, c, through, done);
    return compute;
  }

  // From the top, as indices may hold loads of their own; `done` keeps shared nodes shared.
  Expr renamed(const Expr& e, size_t c, Reader through, std::unordered_map<const ExprNode*, Expr>& done) const {
    if (const auto found = done.find(&*e); found != done.end()) return found->second;
    Expr result = with_args(e, mapped(e->args, [&](const Expr& arg) { return renamed(arg, c, through, done); }));
    if (e.op() == Op::kLoad) {
      const Reader operand = operand_of(c, e);
      const auto copy = copy_.find({e->name, operand == kOthers ? through : operand});
      if (copy != copy_.end() && copy->second != e->name) result = read_from(result, copy->second);
    }
    return done.emplace(&*e, result).first->second;
  }

  const Program& program_;
  std::vector<std::vector<OperandRead>> operands_;  // by compute
  std::map<std::string, std::set<Reader>> readers_;
  std::map<std::pair<std::string, Reader>, std::string> copy_;
  std::set<std::string> names_;
};

}  // namespace

SeparateOperands separate_operands(const Program& program) { return Separator(program).run(); }

}  // namespace tw::te
