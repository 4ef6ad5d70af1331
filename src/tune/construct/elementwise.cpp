#include "tune/construct/elementwise.h"

#include <algorithm>

#include "schedule/contraction.h"
#include "support/math.h"
#include "te/reads.h"
#include "te/rewrite.h"

namespace tw::tune {

std::vector<std::string> tile_loops(const std::vector<std::string>& loops, const std::vector<int64_t>& extents,
                                    int64_t work) {
  std::vector<std::string> tiles;
  int64_t rest = num_elements(extents);
  for (size_t i = 0; i < loops.size() && rest > work; ++i) {
    tiles.push_back(loops[i]);
    rest /= std::max<int64_t>(1, extents[i]);
  }
  return tiles;
}

std::vector<std::string> axis_names(const std::vector<te::Axis>& axes) {
  std::vector<std::string> names;
  for (const te::Axis& axis : axes) names.push_back(axis.name);
  return names;
}

int lanes_for(const te::Compute& compute, const TargetInfo& target) {
  int bytes = compute.outputs[0].type.bytes();
  for (const Expr& body : compute.body) {
    visit(body, [&](const Expr& e) {
      const bool index = e.type() == DataType::i64() && e.op() != Op::kLoad;
      if (!index) bytes = std::max(bytes, e.type().bytes());
    });
  }
  return target.vector_bytes / bytes;
}

te::Program inline_stages(schedule::Schedule& s, te::Program program,
                          const std::function<bool(const te::Compute&)>& keep) {
  std::vector<std::string> names;
  for (const te::Compute& c : program.computes) names.push_back(c.name());
  for (const std::string& name : names) {
    const te::Compute& c = *program.find_compute(name);
    if (c.is_reduction() || c.outputs.size() != 1 || program.is_output(name) || keep(c)) continue;
    const bool pure_read = c.body[0].op() == Op::kLoad;
    if (!pure_read && te::count_reads(program, name) > 1) continue;
    s.inline_stage(name);
    program = te::inline_compute(program, name);
  }
  return program;
}

void schedule_elementwise(schedule::Schedule& s, const te::Compute& c, const TargetInfo& target) {
  if (c.axes.empty()) return;
  std::vector<std::string> loops = axis_names(c.axes);
  std::vector<int64_t> extents = c.outputs[0].shape;
  const int64_t lanes = std::min<int64_t>(lanes_for(c, target), extents.back());
  if (lanes > 1) {
    const std::string last = loops.back();
    const int64_t chunk = loops.size() == 1 && extents.back() > kTileElements ? kTileElements / lanes : 0;
    if (chunk > 0) {
      s.split(c.name(), last, {chunk, lanes});
      s.vectorize(c.name(), last + ".2");
      loops = {last + ".0", last + ".1", last + ".2"};
      extents = {ceil_div(extents.back(), chunk * lanes), chunk, lanes};
    } else {
      s.split(c.name(), last, {lanes});
      s.vectorize(c.name(), last + ".1");
      loops.back() = last + ".0";
      loops.push_back(last + ".1");
      extents.back() = ceil_div(extents.back(), lanes);
      extents.push_back(lanes);
    }
  }
  const std::vector<std::string> tiles = tile_loops(loops, extents);
  if (!tiles.empty()) s.parallel(c.name(), tiles);
}

bool reduces_contiguous(const te::Compute& c) {
  bool contiguous = false;
  te::visit_reads(c, [&](const Expr& load) {
    const int last = static_cast<int>(load->args.size()) - 1;
    contiguous = contiguous || (last >= 0 && schedule::dim_of_axis(load, c.reduce_axes.back().name) == last);
  });
  return contiguous;
}

void schedule_reduction(schedule::Schedule& s, const te::Compute& c, const TargetInfo& target) {
  if (c.axes.empty()) return;
  std::vector<std::string> loops = axis_names(c.axes);
  std::vector<int64_t> extents = c.outputs[0].shape;
  std::vector<std::string> order = loops;
  const int64_t lanes = std::min<int64_t>(lanes_for(c, target), extents.back());
  std::string vector_loop;
  if (lanes > 1) {
    s.split(c.name(), loops.back(), {lanes});
    vector_loop = loops.back() + ".1";
    s.vectorize(c.name(), vector_loop);
    loops.back() += ".0";
    extents.back() = ceil_div(extents.back(), lanes);
    order = loops;
    for (const te::Axis& r : c.reduce_axes) order.push_back(r.name);
    order.push_back(vector_loop);
    s.reorder(c.name(), order);
  }
  int64_t reduced = 1;
  for (const te::Axis& r : c.reduce_axes) reduced *= std::max<int64_t>(1, r.extent);
  const std::vector<std::string> tiles = tile_loops(loops, extents, std::max<int64_t>(1, kTileElements / reduced));
  if (!tiles.empty()) s.parallel(c.name(), tiles);
}

}  // namespace tw::tune
