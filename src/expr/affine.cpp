#include "expr/affine.h"

#include <bit>

namespace tw {
namespace {

template <typename T>
int order(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

int compare_nodes(const ExprNode& a, const ExprNode& b) {
  if (int c = order(a.op, b.op)) return c;
  if (int c = a.name.compare(b.name)) return c;
  if (int c = order(a.value, b.value)) return c;
  if (int c = order(std::bit_cast<uint64_t>(a.number), std::bit_cast<uint64_t>(b.number))) return c;
  if (int c = order(a.type.scalar(), b.type.scalar())) return c;
  if (int c = order(a.type.lanes(), b.type.lanes())) return c;
  if (int c = order(a.predicated, b.predicated)) return c;
  return order(a.args.size(), b.args.size());
}

void split(const Expr& e, int64_t scale, Sum& out) {
  const auto part = [&](const Expr& x, int64_t factor) { split(x, factor, out); };
  if (!take_apart(e, scale, out, part)) out.append(e, scale);
}

// |coef| as unsigned: right for INT64_MIN as well.
uint64_t magnitude(int64_t coef) { return coef < 0 ? 0 - static_cast<uint64_t>(coef) : static_cast<uint64_t>(coef); }

// Printing order: positive terms first, then larger coefficients, then structure.
bool prints_before(const Term* a, const Term* b) {
  if ((a->coef > 0) != (b->coef > 0)) return a->coef > 0;
  if (a->coef != b->coef) return magnitude(a->coef) > magnitude(b->coef);
  return compare_exprs(a->atom, b->atom) < 0;
}

}  // namespace

int compare_exprs(const Expr& a, const Expr& b) {
  if (a.same(b)) return 0;
  if (int c = compare_nodes(*a, *b)) return c;
  for (size_t i = 0; i < a->args.size(); ++i) {
    if (int c = compare_exprs(a.arg(i), b.arg(i))) return c;
  }
  return 0;
}

int64_t Sum::coef_of(const Expr& atom) const {
  const auto it = std::lower_bound(terms.begin(), terms.end(), atom,
                                   [](const Term& t, const Expr& x) { return compare_exprs(t.atom, x) < 0; });
  return it != terms.end() && compare_exprs(it->atom, atom) == 0 ? it->coef : 0;
}

void Sum::append(const Sum& other, int64_t scale) {
  constant = wrapping_add(constant, wrapping_mul(other.constant, scale));
  for (const Term& t : other.terms) terms.push_back({t.atom, wrapping_mul(t.coef, scale)});
}

void Sum::normalise() {
  if (terms.size() > 1) {
    std::ranges::sort(terms, [](const Term& a, const Term& b) { return compare_exprs(a.atom, b.atom) < 0; });
  }
  size_t kept = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (kept > 0 && compare_exprs(terms[kept - 1].atom, terms[i].atom) == 0) {
      terms[kept - 1].coef = wrapping_add(terms[kept - 1].coef, terms[i].coef);
      continue;
    }
    if (kept > 0 && terms[kept - 1].coef == 0) --kept;
    if (kept != i) terms[kept] = std::move(terms[i]);
    ++kept;
  }
  if (kept > 0 && terms[kept - 1].coef == 0) --kept;
  terms.resize(kept);
}

Sum scaled(Sum s, int64_t scale) {
  if (scale == 1) return s;
  Sum out;
  out.append(s, scale);
  std::erase_if(out.terms, [](const Term& t) { return t.coef == 0; });
  return out;
}

Sum sum_of(const Sum& a, const Sum& b, int64_t scale_b) {
  Sum out = a;
  out.append(b, scale_b);
  out.normalise();
  return out;
}

Sum constant_sum(int64_t value) {
  Sum s;
  s.constant = value;
  return s;
}

Sum as_sum(const Expr& e) {
  Sum s;
  split(e, 1, s);
  s.normalise();
  return s;
}

Expr to_expr(const Sum& s) {
  if (s.terms.empty()) return int_imm(s.constant);
  std::vector<const Term*> order = mapped(s.terms, [](const Term& t) { return &t; });
  std::ranges::sort(order, prints_before);
  const bool constant_first = order[0]->coef < 0 && s.constant > 0;
  Expr out = constant_first ? int_imm(s.constant) : Expr();
  for (const Term* t : order) {
    if (!out) {
      out = t->coef == -1 ? -t->atom : t->atom * int_imm(t->coef);
    } else if (t->coef < 0 && t->coef != INT64_MIN) {
      out = out - t->atom * int_imm(-t->coef);
    } else {
      out = out + t->atom * int_imm(t->coef);
    }
  }
  if (constant_first || s.constant == 0) return out;
  return s.constant < 0 && s.constant != INT64_MIN ? out - int_imm(-s.constant) : out + int_imm(s.constant);
}

std::optional<LinearForm> as_linear(const Expr& e) {
  if (e.type() != DataType::i64()) return std::nullopt;
  const Sum s = as_sum(e);
  LinearForm form;
  form.constant = s.constant;
  for (const Term& t : s.terms) {
    if (!t.atom.is_var()) return std::nullopt;
    form.terms.emplace_back(t.atom->name, t.coef);  // compare_exprs orders variables by name
  }
  return form;
}

std::optional<int64_t> coefficient_of(const Expr& e, const std::string& variable) {
  int64_t coefficient = 0;
  for (const Term& t : as_sum(e).terms) {
    if (t.atom.is_var() && t.atom->name == variable) {
      coefficient = t.coef;
    } else if (uses_var(t.atom, variable)) {
      return std::nullopt;
    }
  }
  return coefficient;
}

}  // namespace tw
