#include "transform/rewrite/masks.h"

#include "support/join.h"

namespace tw::transform {
namespace {

Band all_of(int64_t rows, int64_t columns) { return {1 - rows, columns - 1}; }

Band common(const Band& a, const Band& b) { return {std::max(a.lower, b.lower), std::min(a.upper, b.upper)}; }

// The band of those elements that are kept; nothing where they are no band, or none.
std::optional<Band> band_of(int64_t rows, int64_t columns, const std::function<bool(size_t element)>& is_kept) {
  const auto at = [&](int64_t i, int64_t j) { return is_kept(static_cast<size_t>(i * columns + j)); };
  // Each diagonal begins in the first column or the first row.
  const auto begins = [&](int64_t d) { return at(std::max<int64_t>(0, -d), std::max<int64_t>(0, d)); };
  Band band = all_of(rows, columns);
  while (band.lower <= band.upper && !begins(band.lower)) ++band.lower;
  while (band.lower <= band.upper && !begins(band.upper)) --band.upper;
  if (band.lower > band.upper) return std::nullopt;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      if (at(i, j) != (band.lower <= j - i && j - i <= band.upper)) return std::nullopt;
    }
  }
  return band;
}

// Whether a value of `shape` is one matrix, for all that it is broadcast to.
bool is_matrix(const Shape& shape, int64_t rows, int64_t columns) {
  return shape.size() >= 2 && shape[shape.size() - 2] == rows && shape.back() == columns &&
         num_elements(shape) == rows * columns;
}

// Of a constant of two numbers.
std::optional<Mask> constant_matrix(const graph::Value& value, int64_t rows, int64_t columns) {
  constexpr int64_t kMaxElements = int64_t{1} << 24;  // looked at as f64
  const auto count = static_cast<size_t>(rows * columns);
  std::vector<double> elements;
  std::function<double(size_t)> at = [&](size_t e) { return elements[e]; };
  if (value.type.type.is_bool()) {
    at = [bits = value.constant](size_t e) { return (*bits)[e] != std::byte{0} ? 1.0 : 0.0; };
  } else if (value.type.type.is_float() && value.type.elements() <= kMaxElements) {
    elements = elements_of(value).floats;
  } else {
    return std::nullopt;
  }
  const double first = at(0);
  size_t other = 1;
  while (other < count && at(other) == first) ++other;
  if (other == count) return Mask{all_of(rows, columns), first, first};
  const double second = at(other);
  for (const auto& [inside, outside] : {std::pair(first, second), std::pair(second, first)}) {
    for (size_t e = 0; e < count; ++e) {
      if (at(e) != inside && at(e) != outside) return std::nullopt;
    }
    const std::optional<Band> band = band_of(rows, columns, [&](size_t e) { return at(e) == inside; });
    if (band) return Mask{*band, inside, outside};
  }
  return std::nullopt;
}

// A constant that counts the rows or the columns of a matrix: its first number.
struct Positions {
  bool of_columns = false;
  double first = 0;
};
std::optional<Positions> positions(const graph::Value& value, int64_t rows, int64_t columns) {
  const Shape& shape = value.type.shape;
  if (!value.is_constant() || shape.empty()) return std::nullopt;
  const int64_t count = num_elements(shape);
  const bool of_columns = shape.back() == columns && count == columns;
  const bool of_rows = shape.size() >= 2 && shape.back() == 1 && shape[shape.size() - 2] == rows && count == rows;
  if (!of_columns && !of_rows) return std::nullopt;
  const graph::RefTensor elements = elements_of(value);
  const double first = elements.at(0);
  if (first != std::floor(first)) return std::nullopt;
  for (int64_t e = 0; e < count; ++e) {
    if (elements.at(e) != first + static_cast<double>(e)) return std::nullopt;
  }
  return Positions{of_columns, first};
}

// The positions of columns beside those of rows.
std::optional<Mask> compared(const Editor& editor, const Node& node, int64_t rows, int64_t columns) {
  const bool less = node.op == "less" || node.op == "less_equal";
  if (!less && node.op != "greater" && node.op != "greater_equal") return std::nullopt;
  const std::optional<Positions> left = positions(editor.value(node.inputs[0]), rows, columns);
  const std::optional<Positions> right = positions(editor.value(node.inputs[1]), rows, columns);
  if (!left || !right || left->of_columns == right->of_columns) return std::nullopt;
  // column + c op row + r: the distance column - row is compared with r - c.
  const auto distance =
      static_cast<int64_t>(left->of_columns ? right->first - left->first : left->first - right->first);
  const int64_t strict = node.op == "less" || node.op == "greater" ? 1 : 0;
  const bool is_upper = less == left->of_columns;
  Band band = all_of(rows, columns);
  if (is_upper) {
    band = common(band, {band.lower, distance - strict});
  } else {
    band = common(band, {distance + strict, band.upper});
  }
  if (band.lower > band.upper) return Mask{all_of(rows, columns), 0, 0};
  return Mask{band, 1, band == all_of(rows, columns) ? 1.0 : 0.0};
}

// What an element-wise operator makes of one number each.
double applied(const Editor& editor, const Node& node, const std::vector<double>& numbers) {
  std::vector<TensorType> types;
  std::vector<graph::RefTensor> inputs;
  for (size_t k = 0; k < numbers.size(); ++k) {
    const DataType type = editor.type(node.inputs[k]).type;
    types.push_back({type, {}});
    graph::RefTensor& number = inputs.emplace_back(graph::RefTensor::zeros(types.back()));
    if (type.is_float()) {
      number.floats[0] = numbers[k];
    } else {
      number.ints[0] = static_cast<int64_t>(numbers[k]);
    }
  }
  const graph::OpCall call{node, types, std::vector<bool>(types.size(), true)};
  graph::RefTensor result = editor.ops().at(node.op).reference(call, inputs).at(0);
  result.round_to_type();
  return result.at(0);
}

// One after the other of what an element-wise operator reads.
std::vector<double> numbers(const std::vector<Mask>& masks, double Mask::*where) {
  return mapped(masks, [&](const Mask& mask) { return mask.*where; });
}

bool is_condition(const Mask& mask) { return mask.inside == 1 && mask.outside == 0; }

}  // namespace

std::optional<Mask> turned(const Mask& mask, int64_t rows, int64_t columns) {
  const Band all = all_of(rows, columns);
  if (mask.band == all) return std::nullopt;
  if (mask.band.lower == all.lower) return Mask{{mask.band.upper + 1, all.upper}, mask.outside, mask.inside};
  if (mask.band.upper == all.upper) return Mask{{all.lower, mask.band.lower - 1}, mask.outside, mask.inside};
  return std::nullopt;
}

std::optional<Mask> Masks::find(ValueId id, int64_t rows, int64_t columns) {
  const auto [found, is_new] = found_.try_emplace({id, rows, columns});
  if (is_new) found->second = look(id, rows, columns);  // references into a map stay
  return found->second;
}

std::optional<Mask> Masks::look(ValueId id, int64_t rows, int64_t columns) {
  const graph::Value& value = editor_.value(id);
  const std::optional<double> number = splat_of(value);
  if (number) return Mask{all_of(rows, columns), *number, *number};
  const bool one = is_matrix(value.type.shape, rows, columns);
  if (value.is_constant()) return one ? constant_matrix(value, rows, columns) : std::nullopt;
  const Node* node = editor_.producer(id);
  if (node == nullptr || node->outputs.size() != 1) return std::nullopt;
  if (node->op == "expand") return find(node->inputs[0], rows, columns);
  if (node->op == "reshape") {
    const std::optional<Mask> before = find(node->inputs[0], rows, columns);
    const bool is_same =
        before && (before->is_splat() || (one && is_matrix(editor_.shape(node->inputs[0]), rows, columns)));
    return is_same ? before : std::nullopt;
  }
  return computed(*node, rows, columns);
}

std::optional<Mask> Masks::computed(const Node& node, int64_t rows, int64_t columns) {
  if (editor_.ops().at(node.op).op_class != graph::OpClass::kElementwise) return std::nullopt;
  if (const std::optional<Mask> mask = compared(editor_, node, rows, columns)) return mask;
  std::vector<Mask> inputs;
  for (const ValueId in : node.inputs) {
    const std::optional<Mask> mask = in == kAbsent ? std::nullopt : find(in, rows, columns);
    if (!mask) return std::nullopt;
    inputs.push_back(*mask);
  }
  if (node.op == "band") {
    if (!inputs[0].is_splat() || !is_matrix(editor_.shape(node.outputs[0]), rows, columns)) return std::nullopt;
    const Band all = all_of(rows, columns);
    const Band band = common(all, {node.int_attr_or("lower", all.lower), node.int_attr_or("upper", all.upper)});
    const double fill = node.float_attr_or("fill", 0);
    if (band.lower > band.upper) return Mask{all, fill, fill};
    return Mask{band, inputs[0].inside, band == all ? inputs[0].inside : fill};
  }
  if (node.op == "and" && std::ranges::all_of(inputs, is_condition)) {
    const Band band = common(inputs[0].band, inputs[1].band);
    return band.lower > band.upper ? Mask{all_of(rows, columns), 0, 0} : Mask{band, 1, 0};
  }
  Band band = all_of(rows, columns);
  for (const Mask& mask : inputs) {
    if (mask.is_splat()) continue;
    if (band != all_of(rows, columns) && band != mask.band) return std::nullopt;
    band = mask.band;
  }
  const double inside = applied(editor_, node, numbers(inputs, &Mask::inside));
  const double outside = applied(editor_, node, numbers(inputs, &Mask::outside));
  return Mask{inside == outside ? all_of(rows, columns) : band, inside, outside};
}

// Of a mask of two numbers, the one inside first: what `is_kept` of them says is inside.
template <typename IsKept>
std::optional<Mask> Masks::kept(ValueId id, const Matrix& matrix, const IsKept& is_kept) {
  std::optional<Mask> mask = find(id, matrix.rows, matrix.columns);
  if (!mask || mask->is_splat() || is_kept(mask->inside) == is_kept(mask->outside)) return std::nullopt;
  return is_kept(mask->inside) ? mask : turned(*mask, matrix.rows, matrix.columns);
}

// where(mask, x, fill), where(mask, fill, x), x + mask.
std::optional<Masked> Masks::masked(const Node& node, Precision precision) {
  const bool selects = node.op == "where";
  if (!selects && (node.op != "add" || precision == Precision::kStrict)) return std::nullopt;
  const Shape& shape = editor_.shape(node.outputs[0]);
  const Matrix matrix = shape.size() < 2 ? Matrix() : Matrix{shape[shape.size() - 2], shape.back()};
  for (const size_t k : {0, 1}) {
    const ValueId x = node.inputs[selects ? 1 + k : k], other = node.inputs[selects ? 2 - k : 1 - k];
    if (editor_.shape(x) != shape || matrix.rows <= 1 || matrix.columns <= 1) continue;
    const auto is_kept = [&](double number) { return selects ? (number != 0) == (k == 0) : number == 0; };
    const ValueId by = selects ? node.inputs[0] : other;
    const std::optional<Mask> fill = selects ? find(other, matrix.rows, matrix.columns) : std::nullopt;
    if (selects && (!fill || !fill->is_splat())) continue;
    const std::optional<Mask> mask = kept(by, matrix, is_kept);
    const double number = fill ? fill->inside : mask ? mask->outside : 0;
    if (mask && (selects || number <= te::RowMask::kLowest)) return Masked{x, by, mask->band, number, k == 0};
  }
  return std::nullopt;
}

}  // namespace tw::transform
