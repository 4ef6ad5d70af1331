// No order of writes is needed: the element of rank r is the largest number that goes to place r, where those that are
// not wanted go to place 0 as -1.
#include "frontend/onnx/counted_rows.h"

#include "frontend/onnx/running.h"

namespace tw::frontend {
namespace {

const DataType kI64 = DataType::i64();

int64_t bound_of(NodeContext& c, int64_t elements) {
  constexpr int64_t kFewest = 2;  // rows of one length are told from others by having one less
  const auto& bounds = c.importer().options().bounds;
  const auto given = bounds.find(c.node().output(0));
  return given == bounds.end() ? std::max(kFewest, elements) : given->second;
}

// As many as there are.
Selected known_elements(NodeContext& c, ValueId wanted, ValueId ranks) {
  GraphBuilder& builder = c.importer().builder();
  const auto known = [&](ValueId id) { return builder.is_constant(id) ? builder.constant(id) : builder.evaluate(id); };
  const std::vector<int64_t> is_wanted = known(wanted).ints, rank = known(ranks).ints;
  std::vector<int64_t> numbers(static_cast<size_t>(std::ranges::count(is_wanted, 1)));
  for (size_t i = 0; i < is_wanted.size(); ++i) {
    if (is_wanted[i] != 0) numbers[static_cast<size_t>(rank[i])] = static_cast<int64_t>(i);
  }
  return {c.emit().int_list(numbers), std::ssize(numbers)};
}

}  // namespace

bool counts_rows(NodeContext& c) {
  const ImportOptions& options = c.importer().options();
  return options.counts_rows && options.purpose == Purpose::kInference;
}

Selected select_ranked(NodeContext& c, ValueId wanted, ValueId ranks) {
  if (!counts_rows(c) || c.importer().builder().is_constant(wanted)) return known_elements(c, wanted, ranks);
  Emitter& e = c.emit();
  const int64_t elements = e.shape(wanted)[0], bound = bound_of(c, elements);
  const ValueId count = e.reduce("reduce_sum", e.cast(wanted, kI64), {0}, KeepDims::kYes);
  const ValueId zero = e.scalar(0, kI64), none = e.scalar(-1, kI64);
  const ValueId at = e.where(wanted, ranks, zero), number = e.where(wanted, e.int_list(sequence(elements)), none);
  const ValueId rows =
      e.op("scatter_max", {number, at}, {{"axis", int64_t{0}}, {"extent", bound}, {"counts_rows", int64_t{1}}});
  c.importer().add_counted(c.node().output(0), bound, rows, count);
  return {e.op("max", {rows, zero}), bound};
}

Selected select_true(NodeContext& c, ValueId wanted) {
  Emitter& e = c.emit();
  const ValueId number = running(e, e.cast(wanted, kI64), 0, "add", RunsFrom::kBegin);
  return select_ranked(c, wanted, e.sub(number, e.scalar(1, kI64)));
}

}  // namespace tw::frontend
