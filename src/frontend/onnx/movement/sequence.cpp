// Sequences of tensors that are known while the model is imported: their elements are values like others.
#include <algorithm>
#include <array>

#include "frontend/onnx/converters.h"

namespace tw::frontend {
namespace {

const std::vector<ValueId>& elements(NodeContext& c) {
  const std::vector<ValueId>* found = c.importer().builder().sequence(c.input(0));
  if (found == nullptr) throw Unsupported("its sequence is not known at compile time");
  return *found;
}

Outputs made(NodeContext& c, std::vector<ValueId> parts) {
  return {c.importer().builder().add_sequence(c.name(), std::move(parts))};
}

// A number is the extent of all parts but the last one, which may be smaller; a list has the extent of each.
std::vector<int64_t> part_extents(const NodeContext& c, int64_t extent) {
  const std::vector<int64_t> given = c.has(1) ? c.const_ints(1, "split") : std::vector<int64_t>{1};
  if (c.has(1) && c.rank(1) == 1) return given;
  if (given.at(0) < 1) throw UserError("parts of {} elements", given[0]);
  std::vector<int64_t> extents;
  for (int64_t start = 0; start < extent; start += given[0]) extents.push_back(std::min(given[0], extent - start));
  return extents;
}

Outputs convert_split(NodeContext& c) {
  const int64_t axis = c.axis_or("axis", 0, c.rank(0));
  const bool keeps_axis = c.int_or("keepdims", 1) != 0 || c.has(1);
  if (!keeps_axis) return made(c, c.emit().rows(c.input(0), axis));
  const int64_t extent = c.shape(0)[axis];
  std::vector<ValueId> parts;
  int64_t start = 0;
  for (const int64_t part : part_extents(c, extent)) {
    if (part < 0 || part > extent - start)
      throw UserError("a part of {} elements from {} on, of axis {} with {}", part, start, axis, extent);
    parts.push_back(c.emit().slice(c.input(0), axis, start, part));
    start += part;
  }
  if (start != extent) throw UserError("parts with {} elements in all, of axis {} with {}", start, axis, extent);
  return made(c, std::move(parts));
}

Outputs convert_at(NodeContext& c) {
  const std::vector<ValueId>& parts = elements(c);
  const int64_t count = std::ssize(parts), at = c.const_int(1, "position");
  if (at < -count || at >= count) throw UserError("position {} of a sequence of {}", at, count);
  return {parts[static_cast<size_t>(at < 0 ? at + count : at)]};
}

Outputs convert_concat(NodeContext& c) {
  std::vector<ValueId> parts = elements(c);
  const bool stacks = c.int_or("new_axis", 0) != 0;
  if (parts.empty()) throw UserError("the sequence is empty");
  const int64_t axis = normalize_axis(c.int_attr("axis"), c.emit().rank(parts[0]) + (stacks ? 1 : 0));
  for (ValueId& part : parts) {
    if (stacks) part = c.emit().unsqueeze(part, axis);
  }
  return {c.emit().concat(parts, axis)};
}

// Where input `k` says, up to `last`; there where nothing does. From the end of the sequence, `count` elements, where
// it is negative: an element that is inserted at -1 comes before the last one.
int64_t place_of(NodeContext& c, size_t k, int64_t count, int64_t last) {
  const int64_t at = c.has(k) ? c.const_int(k, "position") : last;
  if (at < -count || at > last) throw UserError("position {} of a sequence of {}: {} to {}", at, count, -count, last);
  return at < 0 ? at + count : at;
}

Outputs convert_insert(NodeContext& c) {
  std::vector<ValueId> parts = elements(c);
  parts.insert(parts.begin() + place_of(c, 2, std::ssize(parts), std::ssize(parts)), c.input(1));
  return made(c, std::move(parts));
}

Outputs convert_erase(NodeContext& c) {
  std::vector<ValueId> parts = elements(c);
  parts.erase(parts.begin() + place_of(c, 1, std::ssize(parts), std::ssize(parts) - 1));
  return made(c, std::move(parts));
}

Outputs convert_empty(NodeContext& c) {
  c.ignore_attr("dtype");
  return made(c, {});
}

}  // namespace

bool reads_sequence(std::string_view op) {
  constexpr std::array<std::string_view, 6> kAll = {"SequenceAt",     "SequenceLength", "ConcatFromSequence",
                                                    "SequenceInsert", "SequenceErase",  "Loop"};
  return std::ranges::find(kAll, op) != kAll.end();
}

std::vector<ConverterRow> sequence_rows() {
  return {{"SplitToSequence", 11, 0, convert_split},
          {"SequenceConstruct", 11, 0, [](NodeContext& c) { return made(c, c.all_inputs()); }},
          {"SequenceAt", 11, 0, convert_at},
          // What stands for a sequence is how many elements it has.
          {"SequenceLength", 11, 0, [](NodeContext& c) { return elements(c), Outputs{c.emit().copy(c.input(0))}; }},
          {"SequenceEmpty", 11, 0, convert_empty},
          {"SequenceInsert", 11, 0, convert_insert},
          {"SequenceErase", 11, 0, convert_erase},
          {"ConcatFromSequence", 11, 0, convert_concat}};
}

}  // namespace tw::frontend
