// Einsum: diagonals, sums, and products of two operands at a time as batched matrix products.
#include "frontend/onnx/converters.h"

namespace tw::frontend {
namespace {

// A dimension's label: a letter, or for the dimensions under an ellipsis -1 (the last), -2, ...
using Label = int;
using Labels = std::vector<Label>;

struct Term {
  Labels before, after;
  bool ellipsis = false;
};

Term parse_term(const std::string& text) {
  Term term;
  for (size_t i = 0; i < text.size(); ++i) {
    const char ch = text[i];
    if (ch == ' ') continue;
    if (ch == '.') {
      if (term.ellipsis || text.compare(i, 3, "...") != 0)
        throw UserError("the equation's term '{}' is malformed", text);
      term.ellipsis = true;
      i += 2;
    } else if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z')) {
      (term.ellipsis ? term.after : term.before).push_back(ch);
    } else {
      throw UserError("the equation holds '{}'", ch);
    }
  }
  return term;
}

// Labels of all dimensions of a tensor of `rank`, the ellipsis standing for what is left.
Labels expand_term(const Term& term, int64_t rank) {
  const int64_t hidden = rank - static_cast<int64_t>(term.before.size() + term.after.size());
  if (hidden < 0 || (hidden > 0 && !term.ellipsis)) {
    throw UserError("a term of the equation has {} letters, its operand has rank {}",
                    term.before.size() + term.after.size(), rank);
  }
  Labels labels = term.before;
  for (int64_t d = hidden; d > 0; --d) labels.push_back(static_cast<Label>(-d));
  return joined(labels, term.after);
}

struct Operand {
  ValueId value;
  Labels labels;  // distinct
  int64_t find(Label label) const { return index_of(labels, label); }
};

class Einsum {
 public:
  Einsum(NodeContext& c, const std::string& equation) : e_(c.emit()) {
    const size_t arrow = equation.find("->");
    const std::string left = equation.substr(0, arrow);
    const std::vector<ValueId> inputs = c.all_inputs();
    size_t begin = 0;
    for (size_t k = 0; k < inputs.size(); ++k) {
      const size_t comma = left.find(',', begin);
      if ((comma == std::string::npos) != (k + 1 == inputs.size()))
        throw UserError("equation '{}' is not for {} inputs", equation, inputs.size());
      const Labels labels =
          expand_term(parse_term(left.substr(begin, comma - begin)), static_cast<int64_t>(e_.shape(inputs[k]).size()));
      all_.push_back(labels);
      operands_.push_back(without_repeats({inputs[k], labels}));
      begin = comma + 1;
    }
    output_ = arrow == std::string::npos ? implicit_output() : explicit_output(parse_term(equation.substr(arrow + 2)));
  }

  ValueId run() {
    while (operands_.size() > 1) {
      const Operand b = take_second();
      operands_[0] = product(operands_[0], b);
    }
    Operand last = sum_unneeded(operands_[0], needed_later());
    std::vector<int64_t> perm;
    for (Label label : output_) {
      if (last.find(label) < 0) throw UserError("the equation's result has a letter that no operand has");
      perm.push_back(last.find(label));
    }
    return e_.transpose(last.value, perm);
  }

 private:
  Labels hidden_labels() const {
    std::set<Label> hidden;
    for (const Labels& labels : all_) {
      for (Label label : labels) {
        if (label < 0) hidden.insert(label);
      }
    }
    return {hidden.begin(), hidden.end()};
  }

  // Ellipsis dimensions, then the letters that stand once, in alphabetical order.
  Labels implicit_output() const {
    std::map<Label, int> uses;
    for (const Labels& labels : all_) {
      for (Label label : labels) ++uses[label];
    }
    Labels output = hidden_labels();
    for (const auto& [label, count] : uses) {
      if (label > 0 && count == 1) output.push_back(label);
    }
    return output;
  }

  Labels explicit_output(const Term& term) const {
    const Labels output = joined(term.before, term.ellipsis ? hidden_labels() : Labels(), term.after);
    if (std::set<Label>(output.begin(), output.end()).size() != output.size())
      throw UserError("a letter repeats in the equation's result");
    return output;
  }

  // A repeated label takes the diagonal: the two axes merge into n * n elements, of which every (n + 1)th stays.
  Operand without_repeats(Operand x) {
    for (size_t i = 0; i < x.labels.size(); ++i) {
      for (size_t j = x.labels.size() - 1; j > i; --j) {
        if (x.labels[j] == x.labels[i]) x = diagonal(x, static_cast<int64_t>(i), static_cast<int64_t>(j));
      }
    }
    return x;
  }

  Operand diagonal(const Operand& x, int64_t i, int64_t j) {
    std::vector<int64_t> perm;
    Labels labels;
    for (int64_t d = 0; d < static_cast<int64_t>(x.labels.size()); ++d) {
      if (d == i || d == j) continue;
      perm.push_back(d);
      labels.push_back(x.labels[d]);
    }
    perm.insert(perm.end(), {i, j});
    ValueId y = e_.transpose(x.value, perm);
    Shape shape = e_.shape(y);
    const int64_t n = shape.back();
    if (shape[shape.size() - 2] != n)
      throw UserError("a repeated letter stands for extents {} and {}", shape[shape.size() - 2], n);
    shape.pop_back();
    shape.back() = n * n;
    const int64_t axis = static_cast<int64_t>(shape.size()) - 1;
    y = e_.slice(e_.reshape(y, shape), {{axis, 0, n, n + 1}});
    labels.push_back(x.labels[i]);
    return {y, labels};
  }

  Operand take_second() {
    const Operand b = operands_[1];
    operands_.erase(operands_.begin() + 1);
    return b;
  }

  // Labels of the result and of the operands not yet multiplied.
  std::set<Label> needed_later() const {
    std::set<Label> needed(output_.begin(), output_.end());
    for (size_t k = 1; k < operands_.size(); ++k) needed.insert(operands_[k].labels.begin(), operands_[k].labels.end());
    return needed;
  }

  Operand sum_unneeded(const Operand& x, const std::set<Label>& needed) {
    std::vector<int64_t> axes;
    Labels labels;
    for (size_t d = 0; d < x.labels.size(); ++d) {
      if (needed.count(x.labels[d]) == 0) {
        axes.push_back(static_cast<int64_t>(d));
      } else {
        labels.push_back(x.labels[d]);
      }
    }
    if (axes.empty()) return x;
    return {e_.reduce("reduce_sum", x.value, axes, KeepDims::kNo), labels};
  }

  // x with exactly `labels` as its dimensions, 1 where it has none, or (whole) expanded to `extents`.
  ValueId arranged(const Operand& x, const Labels& labels) {
    std::vector<int64_t> perm;
    for (Label label : labels) {
      if (x.find(label) >= 0) perm.push_back(x.find(label));
    }
    const ValueId y = e_.transpose(x.value, perm);
    Shape shape;
    size_t next = 0;
    for (Label label : labels) shape.push_back(x.find(label) >= 0 ? e_.shape(y)[next++] : 1);
    return e_.reshape(y, shape);
  }

  Operand product(Operand a, Operand b) {
    const std::set<Label> later = needed_later();
    std::set<Label> needed_a = later, needed_b = later;
    needed_a.insert(b.labels.begin(), b.labels.end());
    needed_b.insert(a.labels.begin(), a.labels.end());
    a = sum_unneeded(a, needed_a);
    b = sum_unneeded(b, needed_b);
    Labels batch, only_a, only_b, contracted;
    for (Label label : a.labels)
      (b.find(label) < 0 ? only_a : later.count(label) ? batch : contracted).push_back(label);
    for (Label label : b.labels) {
      if (a.find(label) < 0) only_b.push_back(label);
    }
    const Labels result = joined(batch, only_a, only_b);
    if (contracted.empty()) return {e_.mul(arranged(a, result), arranged(b, result)), result};
    return {contract(a, b, {batch, only_a, only_b, contracted}), result};
  }

  struct LabelSets {
    Labels batch, only_a, only_b, contracted;
  };

  int64_t extent(const Operand& x, Label label) const { return e_.shape(x.value)[x.find(label)]; }

  // [batch, only_a, contracted] x [batch, contracted, only_b]; an extent of 1 is repeated to its partner's.
  ValueId contract(const Operand& a, const Operand& b, const LabelSets& p) {
    Shape batch, rows, columns, inner;
    const auto common = [&](Label label) {
      const int64_t ea = extent(a, label), eb = extent(b, label);
      if (ea != eb && ea != 1 && eb != 1) throw UserError("a letter stands for extents {} and {}", ea, eb);
      return ea == 1 ? eb : ea;
    };
    for (Label label : p.batch) batch.push_back(common(label));
    for (Label label : p.contracted) inner.push_back(common(label));
    for (Label label : p.only_a) rows.push_back(extent(a, label));
    for (Label label : p.only_b) columns.push_back(extent(b, label));
    const auto matrix = [&](const Operand& x, const Labels& order, const Shape& lines, const Shape& steps) {
      return e_.reshape(e_.expand(arranged(x, order), joined(batch, lines, steps)),
                        joined(batch, Shape{num_elements(lines), num_elements(steps)}));
    };
    const ValueId left = matrix(a, joined(p.batch, p.only_a, p.contracted), rows, inner);
    const ValueId right = matrix(b, joined(p.batch, p.contracted, p.only_b), inner, columns);
    return e_.reshape(e_.matmul(left, right), joined(batch, rows, columns));
  }

  Emitter& e_;
  std::vector<Labels> all_;
  std::vector<Operand> operands_;
  Labels output_;
};

}  // namespace

std::vector<ConverterRow> einsum_rows() {
  return {{"Einsum", 12, 0, [](NodeContext& c) -> Outputs { return {Einsum(c, c.string_attr("equation")).run()}; }}};
}

}  // namespace tw::frontend
