#include "core/layout.h"

#include <algorithm>
#include <array>

#include "support/error.h"
#include "support/join.h"
#include "support/lexer.h"
#include "support/math.h"

namespace tw {
namespace {

constexpr int kAny = -1;

// How each primitive is written, and what undoes it; in the order of LayoutOp.
struct Form {
  std::string_view name;
  LayoutOp inverse;
  int args;  // behind the dim, of which kReorder has none
  bool has_dim = true;
  bool has_tensor = false;
};
constexpr std::array<Form, 9> kForms = {{{"split", LayoutOp::kFuse, kAny},
                                         {"reorder", LayoutOp::kReorder, kAny, false},
                                         {"fuse", LayoutOp::kSplit, 1},
                                         {"pad", LayoutOp::kUnpad, 2},
                                         {"unpad", LayoutOp::kPad, 2},
                                         {"unfold", LayoutOp::kFold, 2},
                                         {"fold", LayoutOp::kUnfold, 2},
                                         {"store_at", LayoutOp::kDecoupleAt, 0, true, true},
                                         {"decouple_at", LayoutOp::kStoreAt, 0, true, true}}};

const Form& form_of(LayoutOp op) { return kForms[static_cast<size_t>(op)]; }

// Tiles of `tile` elements, one every `step`, that hold `extent` elements: one at least.
int64_t tile_count(int64_t extent, int64_t tile, int64_t step) {
  return 1 + ceil_div(std::max<int64_t>(extent - tile, 0), step);
}

void check_reorder(const LayoutPrimitive& p, size_t rank) {
  TW_CHECK(p.args.size() == rank, "reorder of rank {} on rank {}", p.args.size(), rank);
  std::vector<bool> seen(rank);
  for (int64_t d : p.args) {
    TW_CHECK(d >= 0 && d < std::ssize(p.args) && !seen[d], "reorder is no permutation");
    seen[d] = true;
  }
}

// The number of dims whose place others take.
int64_t dims_taken(const LayoutPrimitive& p) {
  return p.op == LayoutOp::kFuse ? p.args.at(0) : p.op == LayoutOp::kFold ? 2 : 1;
}

// The dims that `was`, the dims taken, become.
Shape dims_given(const LayoutPrimitive& p, const Shape& was) {
  const auto arg = [&](size_t k) { return p.args.at(k); };
  switch (p.op) {
    case LayoutOp::kSplit:
      TW_CHECK(num_elements(p.args) == was[0], "{} of extent {}", to_string(p), was[0]);
      return p.args;
    case LayoutOp::kFuse:
      return {num_elements(was)};
    case LayoutOp::kPad:
      TW_CHECK(arg(0) >= 0 && arg(1) >= 0, "{}: negative padding", to_string(p));
      return {was[0] + arg(0) + arg(1)};
    case LayoutOp::kUnpad:
      TW_CHECK(was[0] >= arg(0) + arg(1), "{} beyond the extent {}", to_string(p), was[0]);
      return {was[0] - arg(0) - arg(1)};
    case LayoutOp::kUnfold:
      TW_CHECK(arg(1) >= 1 && arg(0) >= arg(1), "{}: tiles of {} elements every {} leave some out", to_string(p),
               arg(0), arg(1));
      return {tile_count(was[0], arg(0), arg(1)), arg(0)};
    case LayoutOp::kFold:
      TW_CHECK(arg(1) >= 1 && was[1] >= arg(1) && was[0] == tile_count(arg(0), was[1], arg(1)),
               "{} of {} tiles of {} elements", to_string(p), was[0], was[1]);
      return {arg(0)};
    case LayoutOp::kStoreAt:
      return {was[0] + 1};
    case LayoutOp::kDecoupleAt:
      TW_CHECK(was[0] >= 1, "{}: there is no slice", to_string(p));
      return {was[0] - 1};
    case LayoutOp::kReorder:
      break;
  }
  throw InternalError("a layout primitive without a shape");
}

LayoutPrimitive inverse_of(const LayoutPrimitive& p, const Shape& before) {
  LayoutPrimitive undo = p;
  undo.op = form_of(p.op).inverse;
  const auto first = before.begin() + p.dim;
  if (p.op == LayoutOp::kSplit) undo.args = {std::ssize(p.args)};
  if (p.op == LayoutOp::kFuse) undo.args.assign(first, first + p.args[0]);
  if (p.op == LayoutOp::kUnfold) undo.args[0] = first[0];
  if (p.op == LayoutOp::kFold) undo.args[0] = first[1];
  if (p.op == LayoutOp::kReorder) {
    for (size_t i = 0; i < p.args.size(); ++i) undo.args[p.args[i]] = static_cast<int64_t>(i);
  }
  return undo;
}

// "name(dim, numbers.., tensor)".
LayoutPrimitive parse_primitive(Lexer& lexer) {
  const Token at = lexer.peek();
  const int64_t op = index_of(kForms, lexer.identifier("a primitive"), &Form::name);
  if (op < 0) Lexer::fail_at(at, fmt::format("unknown primitive '{}'", at.text));
  LayoutPrimitive p{static_cast<LayoutOp>(op), 0, {}};
  const Form& form = form_of(p.op);
  lexer.expect("(");
  if (form.has_dim) p.dim = static_cast<int>(lexer.integer("a dimension"));
  while (!lexer.is(")")) {
    if (form.has_dim || !p.args.empty()) lexer.accept(",");
    if (form.has_tensor && p.tensor.empty())
      p.tensor = lexer.name("a tensor");
    else
      p.args.push_back(lexer.integer("a number"));
  }
  if (form.args != kAny && std::ssize(p.args) != form.args)
    lexer.fail(fmt::format("'{}' has {} numbers behind its dimension", form.name, form.args));
  if (form.has_tensor && p.tensor.empty()) lexer.expected("a tensor");
  lexer.expect(")");
  return p;
}

}  // namespace

Shape apply_primitive(const LayoutPrimitive& p, const Shape& shape) {
  if (p.op == LayoutOp::kReorder) {
    check_reorder(p, shape.size());
    return mapped(p.args, [&](int64_t d) { return shape[d]; });
  }
  const int64_t taken = dims_taken(p);
  TW_CHECK(p.dim >= 0 && taken >= 1 && p.dim + taken <= std::ssize(shape), "layout primitive {} on rank {}",
           to_string(p), shape.size());
  const auto first = shape.begin() + p.dim;
  return spliced(shape, p.dim, taken, dims_given(p, Shape(first, first + taken)));
}

Layout slice_layout(const LayoutPrimitive& p, const Shape& before) {
  // A dim of one element beside a neighbour, which all elements before it come in front of.
  const bool last = p.dim + 1 == std::ssize(before);
  TW_CHECK(before.size() > 1, "{} on rank {}", to_string(p), before.size());
  const int64_t neighbour = before[last ? p.dim - 1 : p.dim + 1];
  const Layout one = last ? Layout().split(p.dim - 1, {neighbour, 1}) : Layout().split(p.dim, {1, neighbour});
  return one.pad(p.dim, before[p.dim], 0);
}

bool Layout::expands() const {
  return std::ranges::any_of(primitives_, [](const LayoutPrimitive& p) {
    const bool overlaps = p.op == LayoutOp::kUnfold && p.args.at(0) > p.args.at(1);
    return overlaps || p.op == LayoutOp::kPad || p.op == LayoutOp::kStoreAt;
  });
}

Layout Layout::then(const LayoutPrimitive& primitive) const { return then(Layout({primitive})); }
Layout Layout::then(const Layout& more) const { return Layout(joined(primitives_, more.primitives_)); }
Layout Layout::split(int dim, std::vector<int64_t> factors) const {
  return then({LayoutOp::kSplit, dim, std::move(factors)});
}
Layout Layout::reorder(std::vector<int64_t> order) const { return then({LayoutOp::kReorder, 0, std::move(order)}); }
Layout Layout::fuse(int dim, int count) const { return then({LayoutOp::kFuse, dim, {count}}); }
Layout Layout::pad(int dim, int64_t before, int64_t after) const {
  return then({LayoutOp::kPad, dim, {before, after}});
}
Layout Layout::unfold(int dim, int64_t tile, int64_t step) const {
  return then({LayoutOp::kUnfold, dim, {tile, step}});
}
Layout Layout::store_at(int dim, std::string tensor) const {
  return then({LayoutOp::kStoreAt, dim, {}, std::move(tensor)});
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

std::string to_string(const LayoutPrimitive& p) {
  const Form& form = form_of(p.op);
  std::vector<std::string> parts = mapped(p.args, [](int64_t number) { return fmt::to_string(number); });
  if (form.has_dim) parts.insert(parts.begin(), fmt::to_string(p.dim));
  if (form.has_tensor) parts.push_back(quote_name(p.tensor));
  return fmt::format("{}({})", form.name, fmt::join(parts, ", "));
}

std::string to_string(const Layout& layout) {
  return fmt::format("{}", fmt::join(mapped(layout.primitives(), [](const auto& p) { return to_string(p); }), " "));
}

Layout parse_layout(std::string_view text) {
  try {
    Lexer lexer(text);
    std::vector<LayoutPrimitive> primitives;
    while (!lexer.at_end()) primitives.push_back(parse_primitive(lexer));
    return Layout(std::move(primitives));
  } catch (const UserError& error) {
    throw UserError("layout '{}': {}", text, error.what());
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
