#include "core/layout.h"

#include <array>
#include <charconv>

#include "support/error.h"

namespace tw {
namespace {

constexpr std::array<std::string_view, 5> kOpNames = {"split", "reorder", "fuse", "pad", "unpad"};

bool has_dim(LayoutOp op) { return op != LayoutOp::kReorder; }

Shape apply_split(const LayoutPrimitive& p, const Shape& shape) {
  TW_CHECK(num_elements(p.args) == shape[p.dim], "split factors [{}] of extent {}", fmt::join(p.args, ","),
           shape[p.dim]);
  Shape out(shape.begin(), shape.begin() + p.dim);
  out.insert(out.end(), p.args.begin(), p.args.end());
  out.insert(out.end(), shape.begin() + p.dim + 1, shape.end());
  return out;
}

Shape apply_fuse(const LayoutPrimitive& p, const Shape& shape) {
  const int64_t count = p.args.at(0);
  TW_CHECK(count >= 1 && p.dim + count <= static_cast<int64_t>(shape.size()), "fuse of {} dims", count);
  Shape out(shape.begin(), shape.begin() + p.dim);
  out.push_back(num_elements(Shape(shape.begin() + p.dim, shape.begin() + p.dim + count)));
  out.insert(out.end(), shape.begin() + p.dim + count, shape.end());
  return out;
}

Shape apply_reorder(const LayoutPrimitive& p, const Shape& shape) {
  TW_CHECK(p.args.size() == shape.size(), "reorder of rank {} on rank {}", p.args.size(), shape.size());
  std::vector<bool> seen(shape.size());
  Shape out;
  for (int64_t d : p.args) {
    TW_CHECK(d >= 0 && d < static_cast<int64_t>(shape.size()) && !seen[d], "reorder is no permutation");
    seen[d] = true;
    out.push_back(shape[d]);
  }
  return out;
}

LayoutPrimitive inverse_of(const LayoutPrimitive& p, const Shape& before) {
  switch (p.op) {
    case LayoutOp::kSplit:
      return {LayoutOp::kFuse, p.dim, {static_cast<int64_t>(p.args.size())}};
    case LayoutOp::kFuse:
      return {LayoutOp::kSplit, p.dim, Shape(before.begin() + p.dim, before.begin() + p.dim + p.args[0])};
    case LayoutOp::kReorder: {
      std::vector<int64_t> order(p.args.size());
      for (size_t i = 0; i < order.size(); ++i) order[p.args[i]] = static_cast<int64_t>(i);
      return {LayoutOp::kReorder, 0, order};
    }
    case LayoutOp::kPad:
      return {LayoutOp::kUnpad, p.dim, p.args};
    case LayoutOp::kUnpad:
      return {LayoutOp::kPad, p.dim, p.args};
  }
  throw InternalError("a layout primitive without inverse");
}

std::vector<int64_t> parse_numbers(std::string_view text, std::string_view whole) {
  std::vector<int64_t> numbers;
  while (!text.empty()) {
    if (text.front() == ' ' || text.front() == ',') {
      text.remove_prefix(1);
      continue;
    }
    int64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc()) throw UserError("layout '{}': '{}' is no number", whole, text);
    numbers.push_back(value);
    text.remove_prefix(end - text.data());
  }
  return numbers;
}

}  // namespace

Shape apply_primitive(const LayoutPrimitive& p, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  TW_CHECK(!has_dim(p.op) || (p.dim >= 0 && p.dim < rank), "layout primitive on dim {} of rank {}", p.dim, rank);
  Shape out = shape;
  switch (p.op) {
    case LayoutOp::kSplit:
      return apply_split(p, shape);
    case LayoutOp::kReorder:
      return apply_reorder(p, shape);
    case LayoutOp::kFuse:
      return apply_fuse(p, shape);
    case LayoutOp::kPad:
      TW_CHECK(p.args.at(0) >= 0 && p.args.at(1) >= 0, "negative padding");
      out[p.dim] += p.args[0] + p.args[1];
      break;
    case LayoutOp::kUnpad:
      out[p.dim] -= p.args.at(0) + p.args.at(1);
      TW_CHECK(out[p.dim] >= 0, "unpad beyond the extent");
  }
  return out;
}

Layout Layout::then(const LayoutPrimitive& primitive) const {
  Layout out = *this;
  out.primitives_.push_back(primitive);
  return out;
}
Layout Layout::split(int dim, std::vector<int64_t> factors) const {
  return then({LayoutOp::kSplit, dim, std::move(factors)});
}
Layout Layout::reorder(std::vector<int64_t> order) const { return then({LayoutOp::kReorder, 0, std::move(order)}); }
Layout Layout::fuse(int dim, int count) const { return then({LayoutOp::kFuse, dim, {count}}); }
Layout Layout::pad(int dim, int64_t before, int64_t after) const {
  return then({LayoutOp::kPad, dim, {before, after}});
}

Shape Layout::storage_shape(const Shape& logical) const {
  Shape shape = logical;
  for (const LayoutPrimitive& p : primitives_) shape = apply_primitive(p, shape);
  return shape;
}

Layout Layout::inverse(const Shape& logical) const {
  std::vector<LayoutPrimitive> undo;
  Shape shape = logical;
  for (const LayoutPrimitive& p : primitives_) {
    undo.insert(undo.begin(), inverse_of(p, shape));
    shape = apply_primitive(p, shape);
  }
  return Layout(std::move(undo));
}

std::string to_string(const Layout& layout) {
  std::vector<std::string> parts;
  for (const LayoutPrimitive& p : layout.primitives()) {
    std::vector<int64_t> numbers = p.args;
    if (has_dim(p.op)) numbers.insert(numbers.begin(), p.dim);
    parts.push_back(fmt::format("{}({})", kOpNames[static_cast<int>(p.op)], fmt::join(numbers, ", ")));
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

Layout parse_layout(std::string_view text) {
  std::vector<LayoutPrimitive> primitives;
  std::string_view rest = text;
  while (true) {
    while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
    if (rest.empty()) return Layout(std::move(primitives));
    const size_t open = rest.find('(');
    const size_t close = rest.find(')');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
      throw UserError("layout '{}': expected name(numbers) at '{}'", text, rest);
    }
    const std::string_view name = rest.substr(0, open);
    size_t op = 0;
    while (op < kOpNames.size() && kOpNames[op] != name) ++op;
    if (op == kOpNames.size()) throw UserError("layout '{}': unknown primitive '{}'", text, name);
    LayoutPrimitive p{static_cast<LayoutOp>(op), 0, parse_numbers(rest.substr(open + 1, close - open - 1), text)};
    if (has_dim(p.op)) {
      if (p.args.empty()) throw UserError("layout '{}': '{}' names no dimension", text, name);
      p.dim = static_cast<int>(p.args.front());
      p.args.erase(p.args.begin());
    }
    primitives.push_back(std::move(p));
    rest.remove_prefix(close + 1);
  }
}

Layout channels_last(int rank) {
  std::vector<int64_t> order(rank);
  order[0] = 0;
  for (int d = 2; d < rank; ++d) order[d - 1] = d;
  order[rank - 1] = 1;
  return Layout().reorder(order);
}

}  // namespace tw
