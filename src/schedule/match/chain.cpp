#include "schedule/match/chain.h"

#include <bit>

#include "expr/affine.h"
#include "schedule/match/stages.h"
#include "te/reads.h"
#include "te/rewrite.h"

namespace tw::schedule {
namespace {

constexpr int kPrivate = -1;  // a dimension that no batch or row axis of the last contraction runs along

/// For each dimension of a tensor: the batch or row axis of the last contraction, or kPrivate.
using Roles = std::vector<int>;

const te::Compute* last_contraction(const te::Program& program) {
  const te::Compute* last = nullptr;
  for (const te::Compute& c : program.computes) {
    if (match_contraction(c).ok()) last = &c;
  }
  return last;
}

// Which axes of the last contraction the dimensions of the stages before it run along, from the last stage backwards.
class RoleFinder {
 public:
  explicit RoleFinder(const te::Program& program) : program_(program) {}

  Result<std::map<std::string, Roles>> run(const Contraction& match) {
    const std::vector<te::Axis> axes = joined(match.batch, match.rows);
    std::map<std::string, int> role;
    for (size_t i = 0; i < axes.size(); ++i) role[axes[i].name] = static_cast<int>(i);
    read(*match.compute, match.a, role);
    for (auto c = program_.computes.rbegin(); c != program_.computes.rend(); ++c) {
      const auto known = roles_.find(c->name());
      if (known == roles_.end()) continue;
      std::map<std::string, int> own;
      for (size_t d = 0; d < c->axes.size(); ++d) own[c->axes[d].name] = known->second[d];
      te::visit_reads(*c, [&](const Expr& load) { read(*c, load, own); });
    }
    if (!reason_.empty()) return Reason{reason_};
    // A stage that no row axis runs along, such as what packs an operand, is needed in each block: it runs before.
    const auto first_row = static_cast<int>(match.batch.size());
    std::erase_if(roles_, [&](const auto& entry) {
      return std::ranges::all_of(entry.second, [&](int r) { return r < first_row; });
    });
    for (const auto& [name, roles] : roles_) {
      const std::set<int> distinct(roles.begin(), roles.end());
      const size_t carried = distinct.size() - distinct.count(kPrivate);
      const size_t doubled = roles.size() - static_cast<size_t>(std::ranges::count(roles, kPrivate)) - carried;
      if (carried != axes.size() || doubled > 0) return declined("{} does not run along all rows once", name);
    }
    return std::move(roles_);
  }

 private:
  void read(const te::Compute& reader, const Expr& load, const std::map<std::string, int>& role) {
    if (program_.find_compute(load->name) == nullptr) return;
    Roles roles;
    for (size_t d = 0; d < load->args.size(); ++d) {
      const Expr& index = load.arg(static_cast<int>(d));
      const te::Axis* own = te::own_axis(reader, load, d);
      int found = own != nullptr && role.contains(own->name) ? role.at(own->name) : kPrivate;
      for (const auto& [axis, r] : role) {
        if (r != kPrivate && uses_var(index, axis) && coefficient_of(index, axis)) found = r;
      }
      roles.push_back(found);
    }
    const auto [entry, fresh] = roles_.emplace(load->name, roles);
    if (!fresh && entry->second != roles) reason_ = fmt::format("{} is read along different rows", load->name);
  }

  const te::Program& program_;
  std::map<std::string, Roles> roles_;
  std::string reason_;
};

// The order that brings dimensions along batch and rows to the front, in the order of their roles.
std::vector<int64_t> rows_first(const Roles& roles) {
  std::vector<int64_t> order = sequence(roles.size());
  std::ranges::stable_sort(order, {}, [&](int64_t d) { return roles[d] == kPrivate ? INT32_MAX : roles[d]; });
  return order;
}

// Whether readers of `stages`, except the last one, are all among them.
bool is_closed(const te::Program& program, const std::vector<std::string>& stages) {
  const auto inside = [&](const std::string& name) { return std::ranges::find(stages, name) != stages.end(); };
  return std::ranges::all_of(program.computes, [&](const te::Compute& c) {
    return inside(c.name()) || std::none_of(stages.begin(), stages.end() - 1,
                                            [&](const std::string& name) { return te::count_reads(c, name) > 0; });
  });
}

// A contraction and the longest epilogue behind it: stages that read it, and nothing else of the chain, point by point.
ChainSegment contraction_segment(const te::Program& program, const te::Compute& sum,
                                 const std::set<std::string>& chain) {
  ChainSegment best{sum.name(), {sum.name()}};
  std::vector<std::string> stages = best.stages;
  for (const te::Compute& c : program.computes) {
    if (chain.count(c.name()) == 0 || !te::depends_on(program, c, sum.name())) continue;
    bool follows = !c.is_reduction() && c.outputs[0].shape == sum.outputs[0].shape;
    te::visit_reads(c, [&](const Expr& load) {
      const bool inside = std::ranges::find(stages, load->name) != stages.end();
      follows = follows && (inside ? te::reads_own_point(c, load->name) : chain.count(load->name) == 0);
    });
    if (!follows) break;
    stages.push_back(c.name());
    if (is_closed(program, stages)) best.stages = stages;
  }
  return best;
}

Result<std::vector<ChainSegment>> segments_of(const te::Program& program, const std::set<std::string>& chain) {
  std::vector<ChainSegment> segments;
  std::set<std::string> placed;
  for (const te::Compute& c : program.computes) {
    if (chain.count(c.name()) == 0 || placed.count(c.name()) != 0) continue;
    if (match_contraction(c).ok()) {
      segments.push_back(contraction_segment(program, c, chain));
      placed.insert(segments.back().stages.begin(), segments.back().stages.end());
      continue;
    }
    if (segments.empty() || !segments.back().sum.empty()) segments.push_back({});
    segments.back().stages.push_back(c.name());
  }
  for (const ChainSegment& segment : segments) {
    if (!is_closed(program, segment.stages)) return declined("stages before {} are read behind it", segment.output());
  }
  return segments;
}

// Whether `c` takes no more than products with a number and conversions, as the scale of attention in front of a mask.
bool only_scales(const te::Compute& c) {
  bool only = c.outputs.size() == 1;
  visit(c.body[0], [&](const Expr& e) {
    const bool scale = e.op() == Op::kMul && (e.arg(0).op() == Op::kFloatImm || e.arg(1).op() == Op::kFloatImm);
    const bool leaf = e.op() == Op::kLoad || e.op() == Op::kFloatImm || e.type().is_int();
    only = only && (scale || leaf || e.op() == Op::kCast);
  });
  return only;
}

// Padding of what comes from outside goes into the product that reads it, as that before a depthwise convolution: what
// is read once is not worth a copy.
bool stays(const te::Program& program, const te::Compute& c) {
  if (c.body[0].op() == Op::kLoad) return false;
  bool of_inputs = true;
  te::visit_reads(c, [&](const Expr& read) { of_inputs = of_inputs && program.find_compute(read->name) == nullptr; });
  return is_once_a_row(program, c) || std::ranges::any_of(program.computes, [&](const te::Compute& reader) {
           if (te::count_reads(reader, c.name()) == 0) return false;
           const Result<Contraction> sum = match_contraction(reader);
           if (sum.ok()) return !(has_select(c) && (of_inputs || sum->a_uses_column));
           return !reader.is_reduction() && has_select(reader) && !only_scales(c);
         });
}

// Why a chain cannot be built in blocks, or an empty text.
std::string why_declined(const Chain& chain) {
  for (const te::Compute& c : chain.program.computes) {
    if (has_empty_axis(c)) return c.name() + " has an axis of extent 0";
    const bool side =
        !chain.contains(c.name()) && c.name() != chain.last && !te::depends_on(chain.program, c, chain.last);
    if (side && match_contraction(c).ok()) return c.name() + " is a contraction beside the chain";
  }
  for (const ChainSegment& segment : chain.segments) {
    if (segment.sum.empty() && common_rows(segment_program(chain.program, segment)) == 0)
      return segment.output() + " shares no rows with its stages";
  }
  return "";
}

// Elements of one dimension that are read while every axis of `reader` runs over its extent.
int64_t elements_read(const Expr& index, const te::Compute& reader) {
  int64_t span = 1;
  for (const auto* axes : {&reader.axes, &reader.reduce_axes}) {
    for (const te::Axis& axis : *axes) {
      if (uses_var(index, axis.name))
        span += std::abs(coefficient_of(index, axis.name).value_or(0)) * (axis.extent - 1);
    }
  }
  return span;
}

void set_extent(te::Compute& c, size_t axis, int64_t extent) {
  c.axes[axis].extent = extent;
  for (te::Tensor& t : c.outputs) t.shape[axis] = extent;
}

constexpr int64_t kMinLines = 8;    // of a matrix
constexpr int64_t kRows = 16;       // of an instruction
constexpr int64_t kMaxRows = 128;   // of a tile
constexpr int64_t kMaxParts = 128;  // of rows that a reduction combines: a thread adds them one by one

// Rows that leave the group are what is combined: what is computed of them alone belongs to the reduction.
void end_at_output(const te::Program& program, ChainSegment& segment) {
  std::vector<std::string>& stages = segment.stages;
  const auto leaves = [&](const std::string& stage) { return program.is_output(stage); };
  const auto last = std::ranges::find_if(stages.rbegin(), stages.rend(), leaves);
  if (last == stages.rend()) return;
  const std::vector<std::string> until(stages.begin(), last.base());
  if (is_closed(program, until)) stages = until;
}

}  // namespace

bool is_heavy(const te::Program& program, const ChainSegment& segment) {
  return !segment.sum.empty() || std::ranges::any_of(segment.stages, [&](const std::string& name) {
    return program.find_compute(name)->is_reduction();
  });
}

bool Chain::contains(const std::string& stage) const {
  return std::ranges::any_of(segments, [&](const ChainSegment& segment) {
    return std::ranges::find(segment.stages, stage) != segment.stages.end();
  });
}

te::Program inline_chain(Schedule& s, const te::Program& program) {
  return inline_stages(s, program, [&](const te::Compute& c) { return stays(program, c); });
}

Result<Chain> match_chain(const te::Program& program) {
  const te::Compute* last = last_contraction(program);
  if (last == nullptr) return declined("no sum of products");
  const Result<Contraction> match = match_contraction(*last);
  if (match->a_uses_column || match->rows.empty()) return declined("{} has no rows", last->name());
  Result<std::map<std::string, Roles>> roles = RoleFinder(program).run(*match);
  if (!roles.ok()) return Reason{roles.reason()};
  std::set<std::string> names;
  for (const auto& [name, r] : *roles) names.insert(name);
  if (names.count(match->b->name) != 0) return declined("both operands of {} come from its rows", last->name());
  Chain chain;
  chain.last = last->name();
  const Result<std::string> output = epilogue_output(program, *last);
  if (!output.ok()) return Reason{output.reason()};
  chain.output = *output;
  Result<std::vector<ChainSegment>> segments = segments_of(program, names);
  if (!segments.ok()) return Reason{segments.reason()};
  chain.segments = std::move(segments).value();
  if (std::ranges::none_of(chain.segments, [&](const ChainSegment& s) { return is_heavy(program, s); }))
    return declined("no sum before {} runs along its rows", last->name());
  for (const auto& [name, r] : *roles) {
    const std::vector<int64_t> order = rows_first(r);
    if (!std::ranges::is_sorted(order)) chain.layouts[name] = Layout().reorder(order);
  }
  chain.program = te::apply_layouts(program, chain.layouts);
  if (const std::string reason = why_declined(chain); !reason.empty()) return Reason{reason};
  return chain;
}

te::Program block_program(const Chain& chain, const std::map<std::string, int64_t>& block) {
  te::Program local = chain.program;
  std::map<std::string, Shape> needed;  // of stages of the chain
  const auto need = [&](const te::Compute& reader) {
    te::visit_reads(reader, [&](const Expr& load) {
      if (!chain.contains(load->name)) return;
      Shape& extents = needed[load->name];
      extents.resize(load->args.size(), 1);
      for (size_t d = 0; d < extents.size(); ++d) extents[d] = std::max(extents[d], elements_read(load.arg(d), reader));
    });
  };
  for (auto c = local.computes.rbegin(); c != local.computes.rend(); ++c) {
    const bool is_last = c->name() == chain.last || te::depends_on(chain.program, *c, chain.last);
    if (!is_last && !chain.contains(c->name())) continue;
    for (size_t d = 0; d < c->axes.size(); ++d) {
      const auto found = block.find(c->axes[d].name);
      if (is_last && found != block.end()) set_extent(*c, d, found->second);
      if (!is_last) set_extent(*c, d, std::min(c->axes[d].extent, needed[c->name()][d]));
    }
    need(*c);
  }
  return local;
}

int64_t bytes_between(const Chain& chain, const te::Program& block) {
  int64_t bytes = 0;
  for (const ChainSegment& segment : chain.segments) {
    const te::Tensor& t = block.tensor(segment.output());
    bytes += num_elements(t.shape) * t.type.bytes();
  }
  return bytes;
}

Result<ReducedProduct> match_combined_rows(const te::Program& program) {
  const te::Compute* sum = find_contraction(program);
  if (sum == nullptr || has_empty_axis(*sum)) return declined("no sum of products");
  std::set<std::string> behind = {sum->name()};
  for (const te::Compute& c : program.computes) {
    if (te::depends_on(program, c, sum->name())) behind.insert(c.name());
  }
  ReducedProduct out{program, {}, contraction_segment(program, *sum, behind), {}, {}, {}, {}};
  end_at_output(program, out.segment);
  const te::Tensor value = program.tensor(out.segment.output());
  for (const std::string& stage : out.segment.stages) {
    if (program.is_output(stage) && stage != value.name)
      return declined("{} leaves the group, and rows are combined of {}", stage, value.name);
  }
  Schedule inlined;
  const te::Program rest = inline_stages(inlined, program, [&](const auto& c) { return c.name() == value.name; });
  const auto reduction =
      std::ranges::find_if(rest.computes, [&](const auto& c) { return te::count_reads(c, value.name) > 0; });
  const int readings = te::count_reads(rest)[value.name];
  if (readings != 1)
    return declined("{} readings of {}: a tile combines rows for one reduction that reads them once", readings,
                    value.name);
  if (!reduction->is_reduction() || reduction->outputs.size() > 1)
    return declined("{}, which reads {}, is no reduction of one result", reduction->name(), value.name);
  const Expr read = te::reads_of(*reduction, {value})[0];
  const int column = reduction->axes.empty() ? kPrivate : te::dim_of_axis(read, reduction->axes.back().name);
  if (column < 0) return declined("{} combines columns", reduction->name());
  const Result<std::string> output = epilogue_output(program, *program.find_compute(reduction->name()));
  if (!output.ok()) return Reason{output.reason()};
  for (const te::Compute& c : rest.computes) {
    if (!behind.contains(c.name())) return declined("{} is computed beside {}", c.name(), sum->name());
  }
  out.reduction = reduction->name(), out.output = *output;
  Roles roles(value.shape.size(), 0);
  roles[column] = kPrivate;
  for (const std::string& stage : out.segment.stages) out.layouts[stage] = Layout().reorder(rows_first(roles));
  if (roles.back() == kPrivate) out.layouts.clear();
  if (program.is_output(value.name) && !out.layouts.empty())
    return declined("{} leaves the group with its columns apart", value.name);
  out.program = te::apply_layouts(program, out.layouts);
  const Result<Contraction> match = match_contraction(*out.program.find_compute(out.segment.sum));
  if (!match.ok()) return Reason{match.reason()};
  const auto of_both = [&](const te::Axis& axis) { return te::uses_axis(match->a, axis.name); };
  const bool narrow = match->column.extent < kMinLines || !value.type.is_float();
  if (narrow || match->words || match->a_uses_column || !std::ranges::all_of(match->batch, of_both))
    return declined("{} multiplies no matrices with one axis of columns", out.segment.sum);
  for (const te::Axis& r : reduction->reduce_axes) {
    int d = te::dim_of_axis(read, r.name);
    d -= d > column ? 1 : 0;
    const te::Axis& axis = match->compute->axes[std::max(0, d)];
    const auto is_it = [&](const te::Axis& row) { return d >= 0 && row.name == axis.name && axis.extent == r.extent; };
    if (std::ranges::none_of(match->rows, is_it))
      return declined("{} combines more than rows of {}", out.reduction, out.segment.sum);
    out.rows.push_back(static_cast<size_t>(d));
  }
  return out;
}

std::string why_near_declined(const ReducedProduct& match) {
  for (const std::string& out : match.program.outputs) {
    if (out != match.segment.output() && out != match.output)
      return fmt::format("{} leaves the group beside {} and {}", out, match.segment.output(), match.output);
  }
  const Contraction product = *match_contraction(*match.program.find_compute(match.segment.sum));
  return product.batch.empty() && product.rows.size() == 1 ? "" : match.segment.sum + " is no product of two matrices";
}

Result<ReducedProduct> match_reduced_product(const te::Program& program, double min_filled) {
  Result<ReducedProduct> found = match_combined_rows(program);
  if (!found.ok()) return found;
  ReducedProduct out = std::move(found).value();
  const te::Compute* reduction = out.program.find_compute(out.reduction);
  const int64_t rows = te::num_points(reduction->reduce_axes), first = reduction->reduce_axes[0].extent;
  for (int64_t count = 1; count <= std::min(first, kMaxParts); ++count) {
    const auto part = static_cast<uint64_t>(rows / count);
    const double filled = 1.0 * part / std::max<uint64_t>(kRows, std::bit_ceil(part));
    if (first % count == 0 && part <= kMaxRows && filled >= min_filled) out.parts[count] = filled;
  }
  if (out.parts.empty()) return declined("parts of the rows of {} fill no tiles", out.segment.sum);
  return out;
}

te::Program segment_program(const te::Program& program, const ChainSegment& segment) {
  te::Program out;
  out.name = segment.output();
  out.outputs = {segment.output()};
  std::set<std::string> known(segment.stages.begin(), segment.stages.end());
  for (const std::string& name : segment.stages) {
    const te::Compute& c = *program.find_compute(name);
    te::visit_reads(c, [&](const Expr& load) {
      if (known.insert(load->name).second) out.inputs.push_back(program.tensor(load->name));
    });
    out.computes.push_back(c);
  }
  return out;
}

}  // namespace tw::schedule
