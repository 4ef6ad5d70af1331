// What the threads of a block do together: loops of threads, matrix instructions.

#include "codegen/cuda/kernel_emitter.h"
#include "core/target_info.h"
#include "support/error.h"
#include "te/reads.h"

namespace tw::codegen {
namespace {

constexpr int64_t kScratchBytes = kMaxThreads / kWarpThreads * 8;  // an element of each warp

}  // namespace

void KernelEmitter::threads(const Stmt& s, Then then) {
  if (fills_any(s, filled_once_) || zeroes_fresh_sums(s)) return;
  const ThreadGroup group = thread_group(s);
  line("{{");
  ++depth_;
  int64_t inner = group.threads;
  for (const Stmt& l : group.loops) {
    inner /= l->extent;
    const std::string name = fresh();
    names_.variables[l->var] = name;
    names_.ranges.bind(l->var, 0, l->extent);
    const bool of_groups = !swizzled_.empty() && inner % kGroupThreads == 0;
    const std::string turn = inner == 1  ? thread_
                             : of_groups ? fmt::format("tw_group / {}", inner / kGroupThreads)
                                         : fmt::format("{} / {}", thread_, inner);
    line("const int {} = {};", name, &l == &group.loops.front() ? turn : fmt::format("{} % {}", turn, l->extent));
  }
  group_ = &group;
  matrix_rows_.clear();
  const std::optional<Combination> combination = combination_of(group);
  if (combination) {
    combine(group, *combination);
  } else {
    by_threads(group, [&] {
      std::set<std::string> sums = sums_of_groups(group.body());
      begin_groups(sums);
      stored_for_matrix_ = false;
      statements(group.body(), Then::kEnd);
      // Asynchronous copies need no fence: CUTLASS's own kernels that fill for these instructions with them have none.
      if (stored_for_matrix_) line("tw_written_for_matrix();");
      if (!sums.empty()) line("tw_matrix_end();");
      std::erase_if(sums, [&](const std::string& name) { return running_.contains(name); });
      in_pipeline_ ? awaited_.merge(sums) : end_groups(sums);
    });
  }
  group_ = nullptr;
  --depth_;
  line("}}");
  if (then == Then::kMore && is_shared({s}, {})) meet();
}

bool KernelEmitter::is_shared(const std::vector<Stmt>& stmts, std::set<std::string> own) const {
  loop::visit(stmts, [&](const Stmt& s) {
    if (s->kind == StmtKind::kAllocate) own.insert(s->allocated.name);
  });
  const auto is_other = [&](const std::string& name) {
    return !own.contains(name) && !names_.buffers.at(name).in_registers && !is_read_only(name);
  };
  bool shared = false;
  loop::visit(stmts, [&](const Stmt& s) { shared = shared || (s->kind == StmtKind::kStore && is_other(s->buffer)); });
  loop::visit_exprs(stmts, [&](const Expr& whole) {
    visit(whole, [&](const Expr& e) {
      // What no turn of a pipeline stores to may be read at any time of it.
      const bool waits = e.op() == Op::kLoad && (!in_pipeline_ || stored_in_turn_.contains(e->name));
      shared = shared || (waits && is_other(e->name));
    });
  });
  return shared;
}

std::set<std::string> KernelEmitter::sums_of_groups(const std::vector<Stmt>& stmts) {
  std::set<std::string> names;
  for (const Stmt& step : group_steps(stmts)) {
    loop::visit({step}, [&](const Stmt& s) {
      if (s->kind == StmtKind::kStore) names.insert(s->buffer);
    });
  }
  loop::visit(stmts, [&](const Stmt& s) {
    if (s->kind == StmtKind::kAllocate) names.erase(s->allocated.name);
  });
  return names;
}

std::set<std::string> KernelEmitter::running_sums(const std::vector<Stmt>& turn) {
  std::set<std::string> held, ended;  // in registers of a turn
  loop::visit(turn, [&](const Stmt& s) {
    if (s->kind == StmtKind::kAllocate && s->allocated.scope == loop::Scope::kRegister) held.insert(s->allocated.name);
  });
  for (const Stmt& step : group_steps(turn)) {
    bool reads_held = false;
    loop::visit_exprs({step}, [&](const Expr& whole) {
      visit(whole, [&](const Expr& e) { reads_held = reads_held || (e.op() == Op::kLoad && held.contains(e->name)); });
    });
    if (reads_held) ended.merge(sums_of_groups({step}));
  }
  std::set<std::string> running = sums_of_groups(turn);
  std::erase_if(running, [&](const std::string& name) { return ended.contains(name); });
  return running;
}

bool KernelEmitter::runs_beside_sums(const Stmt& s) const {
  const bool inside = group_ != nullptr || s->kind == StmtKind::kAllocate || s->kind == StmtKind::kBlock;
  if (awaited_.empty() || inside) return true;
  if (!loop::is_thread_loop(s)) return false;
  bool others = zeroes_fresh_sums(s) || !sums_of_groups({s}).empty();
  loop::visit(
      {s}, [&](const Stmt& x) { others = others && (x->kind != StmtKind::kStore || !awaited_.contains(x->buffer)); });
  loop::visit_exprs({s}, [&](const Expr& whole) {
    visit(whole, [&](const Expr& e) { others = others && (e.op() != Op::kLoad || !awaited_.contains(e->name)); });
  });
  return others;
}

void KernelEmitter::await_sums() { end_groups(std::exchange(awaited_, {})); }

void KernelEmitter::settle(const std::set<std::string>& sums) {
  for (const std::string& name : sums) line("tw_settled({});", names_.buffers.at(name).name);
}

void KernelEmitter::begin_groups(const std::set<std::string>& sums) {
  settle(sums);
  if (!sums.empty()) line("tw_matrix_begin();");
}

void KernelEmitter::end_groups(const std::set<std::string>& sums) {
  if (!sums.empty()) line("tw_matrix_done<0>();");
  settle(sums);
}

void KernelEmitter::group_matrix(const Stmt& s) {
  const GroupStep step = group_step(s, *group_, names_.ranges);
  std::vector<std::string> places, sums, rows, places_of_rows;
  for (const std::vector<Expr>& d : step.d) {
    places.push_back(fmt::format("%{}", places.size()));
    sums.push_back(fmt::format("\"+f\"({})", cuda_element(step.sums, d, names_)));
  }
  size_t next = places.size();
  for (const std::vector<Expr>& held : step.held) {
    TW_CHECK(names_.buffers.at(held[0]->name).in_registers, "kernel {}: rows of {} in no lines", kernel_.name,
             held[0]->name);
    rows.push_back(fmt::format("\"r\"({})", neighbours(held)));
    places_of_rows.push_back(fmt::format("%{}", next++));
  }
  const bool tf32 = step.type == DataType::f32();  // whose operands have no order of lines to choose
  const std::string type = tf32 ? "k8.f32.tf32.tf32" : fmt::format("k16.f32.{0}.{0}", to_string(step.type));
  const std::string a =
      step.held.empty() ? fmt::format("%{}", next++) : fmt::format("{{{}}}", fmt::join(places_of_rows, ","));
  const std::string of_a = step.held.empty() ? (step.a_by_steps ? ", 1" : ", 0") : "";
  const std::string order = fmt::format("{}, {}", of_a, step.b_by_steps ? 1 : 0);
  const std::string instruction = fmt::format("wgmma.mma_async.sync.aligned.m64n{}{} {{{}}}, {}, %{}, on, 1, 1{};",
                                              step.columns, type, fmt::join(places, ","), a, next, tf32 ? "" : order);
  for (int64_t from = 0; from < (tf32 ? 16 : 8); from += 8) {
    const auto lines = [&](const Expr& first, bool by_steps) {
      CudaOffset offset = cuda_unswizzled_offset(first->name, first->args, names_);
      offset.constant += from;
      // From 64 columns to the next, where they are not lines, in 16 bytes.
      const Shape& shape = names_.buffers.at(first->name).shape;
      const int64_t block = by_steps ? shape[shape.size() - 2] * 8 : 1;
      return fmt::format("\"l\"(tw_matrix<{}>({}))", block, apart(first->name, offset));
    };
    if (step.a) rows = {lines(step.a, step.a_by_steps)};
    const bool first = from == 0 && fresh_sums_.contains(step.sums) && begun_sums_.insert(sums.front()).second;
    line("asm volatile(\"{{.reg .pred on; setp.ne.b32 on, %{}, 0; {}}}\"", next + 1, instruction);
    line("  : {}", fmt::join(sums, ", "));
    line("  : {}, {}, \"r\"({}));", fmt::join(rows, ", "), lines(step.b, step.b_by_steps), first ? 0 : 1);
  }
}

// Sums that instructions of warp groups begin have no zeros stored to them: the first instruction takes none.
bool KernelEmitter::zeroes_fresh_sums(const Stmt& s) const {
  bool only = true;
  loop::visit({s}, [&](const Stmt& x) {
    const bool zeros = x->kind == StmtKind::kStore && is_zero(x->value) && fresh_sums_.contains(x->buffer);
    only = only && (zeros || x->kind == StmtKind::kFor);
  });
  return only;
}

void KernelEmitter::find_fresh_sums(const Stmt& allocation) {
  const std::string& name = allocation->allocated.name;
  const auto adds = [&](const Stmt& step) { return sums_of_groups({step}).contains(name); };
  bool in_loop = false, from_zero = true;
  loop::visit(allocation->body, [&](const Stmt& s) {
    const bool turns =
        s->kind == StmtKind::kIf || (s->kind == StmtKind::kFor && !loop::is_thread_loop(s) && !loop::is_matrix_loop(s));
    in_loop = in_loop || (turns && std::ranges::any_of(group_steps(s->body), adds));
    const bool begins = s->kind == StmtKind::kStore && s->buffer == name && !te::reads(s->value, name);
    from_zero = from_zero && (!begins || is_zero(s->value));
  });
  if (!in_loop && from_zero && std::ranges::any_of(group_steps(allocation->body), adds)) fresh_sums_.insert(name);
}

void KernelEmitter::combine(const ThreadGroup& group, const Combination& c) {
  const std::string type = cuda_type(c.type), mine = fresh(), function = fresh(), total = fresh();
  line("{} {}[1] = {{{}}};", type, mine, cuda_expr(te::identity_of(*te::combiner_of(c.op), c.type), names_));
  const CudaNames::Array array = names_.buffers.at(c.buffer);
  names_.buffers[c.buffer] = {mine, {}, std::vector<bool>(c.indices.size(), true), true};
  by_threads(group, [&] { statements(group.body(), Then::kEnd); });
  names_.buffers[c.buffer] = array;
  line("const auto {} = []({} a, {} b) {{ return {}; }};", function, type, type, combined(c.op, c.type, "a", "b"));
  TW_CHECK(!tma_ring_ || c.run <= kWarpThreads, "kernel {}: {} threads combine beside TMA", kernel_.name, c.run);
  const std::string scratch = c.run > kWarpThreads ? fmt::format("({}*)(tw_shared + {})", type, reserve(kScratchBytes))
                                                   : fmt::format("({}*)0", type);
  line("const {} {} = tw_combine<{}>({}[0], {}, {});", type, total, c.run, mine, function, scratch);
  by_threads(group, [&] {
    const std::string element = cuda_element(c.buffer, c.indices, names_);
    // Registers are each thread's own: all have the result.
    const std::string once = array.in_registers ? "" : fmt::format("if ({} % {} == 0) ", thread_, c.run);
    line("{}{} = {};", once, element, combined(c.op, c.type, element, total));
  });
}

void KernelEmitter::matrix(const Stmt& s) {
  TW_CHECK(group_ != nullptr, "kernel {}: a matrix step outside of threads", kernel_.name);
  if (is_group_step(s)) return group_matrix(s);
  const MatrixStep step = matrix_step(s, *group_, names_.ranges);
  std::vector<std::string> operands;
  for (const std::vector<Expr>& d : step.d) operands.push_back(cuda_element(step.sums, d, names_));
  const size_t of_a = step.operands.size() * 2 / 3;
  add_operand(step.a, {step.operands.begin(), step.operands.begin() + static_cast<std::ptrdiff_t>(of_a)}, operands);
  add_operand(step.b, {step.operands.begin() + static_cast<std::ptrdiff_t>(of_a), step.operands.end()}, operands);
  const std::string type = step.type == DataType::f32() ? "tf32" : to_string(step.type);
  line("tw_mma_{}({});", type, fmt::join(operands, ", "));
}

void KernelEmitter::add_operand(const std::optional<MatrixRows>& rows, const std::vector<std::vector<Expr>>& loads,
                                std::vector<std::string>& operands) {
  constexpr int kRow = 8;
  std::string row;
  if (rows && !is_param(rows->row->name)) {
    std::vector<Expr> indices = rows->row->args;
    indices.back() = ramp(indices.back(), int_imm(1), kRow);
    row = cuda_vector(rows->row->name, rows->row.type().with_lanes(kRow), indices, names_);
  }
  if (row.empty()) {
    for (const std::vector<Expr>& each : loads) operands.push_back(neighbours(each));
    return;
  }
  std::string& name = matrix_rows_[row];
  if (name.empty()) {
    name = fresh();
    line("unsigned {}[{}];", name, rows->count);
    line("tw_load_matrix<{}>({}, &{});", rows->transposed, name, row);
  }
  for (int i = 0; i < rows->count; ++i) operands.push_back(fmt::format("{}[{}]", name, i));
}

bool KernelEmitter::is_param(const std::string& buffer) const {
  return std::ranges::find(kernel_.params, buffer, &loop::Buffer::name) != kernel_.params.end();
}

std::string KernelEmitter::neighbours(const std::vector<Expr>& loads) const {
  std::vector<Expr> all = loads[0]->args;
  std::vector<std::string> each;
  bool beside = !all.empty();
  for (const Expr& load : loads) {
    const Expr place = beside ? all.back() + int_imm(static_cast<int64_t>(each.size())) : Expr();
    beside = beside && equal(names_.ranges.simplify(place), load->args.back());
    each.push_back(cuda_expr(load, names_));
  }
  if (beside) all.back() = ramp(all.back(), int_imm(1), static_cast<int>(loads.size()));
  const DataType type = loads[0].type().with_lanes(static_cast<int>(loads.size()));
  const std::string whole = beside ? cuda_vector(loads[0]->name, type, all, names_) : "";
  const bool pair = type.element().is_half();
  if (!whole.empty()) return pair ? fmt::format("tw_bits<unsigned>({})", whole) : whole;
  return fmt::format("{}{}{}", pair ? "tw_pair(" : "tw_vec<float, 4>{{", fmt::join(each, ", "), pair ? ")" : "}}");
}

}  // namespace tw::codegen
