#include "codegen/cuda/kernel_emitter.h"

#include "codegen/cuda/bulk.h"
#include "core/target_info.h"
#include "support/error.h"
#include "support/math.h"

namespace tw::codegen {
namespace {

constexpr int64_t kRegisters = 65536;       // of an SM
constexpr int64_t kProducerRegisters = 40;  // of a thread that tells TMA what to fetch
constexpr int64_t kRegisterMultiple = 8;    // of what a warp group may have
constexpr int64_t kMostRegisters = 240;     // of a thread that computes: 255 are too many for what is moved in eights
constexpr int64_t kMaxNarrow = int64_t{1} << 30;  // elements: sums of a few indices stay below 2^31

int64_t multiple_below(int64_t n, int64_t multiple) { return n / multiple * multiple; }

}  // namespace

CudaKernel KernelEmitter::run() {
  const int64_t threads = max_threads(kernel_.body);
  if (threads > 0) tile_threads_ = ceil_div(threads, kWarpThreads) * kWarpThreads;
  consumer_threads_ = tile_threads_ * kernel_.together;
  has_threads_ = threads > 0;
  const std::vector<Stmt> loops = outermost(kernel_.body, [](const Stmt& s) {
    const bool pipelined = s->kind == StmtKind::kFor && s->for_kind == loop::ForKind::kPipelined;
    return pipelined && !bulk_nests(loop::pipeline_parts(*s).fill).empty();
  });
  users_fetch_ = fetched_by_users(loops);
  taken_registers_ = loops.empty() || users_fetch_ ? 0 : registers_to_take();
  out_.threads = consumer_threads_;
  if (!loops.empty() && !users_fetch_) out_.threads += taken_registers_ > 0 ? kGroupThreads : kWarpThreads;
  TW_CHECK(out_.threads <= kMaxThreads, "kernel {}: {} threads in a block", kernel_.name, out_.threads);
  find_swizzled();
  declare_params();
  names_.narrow = fits_narrow();
  if (!kernel_.tile_var.empty()) {
    names_.variables[kernel_.tile_var] = "tile";
    names_.ranges.bind(kernel_.tile_var, 0, kernel_.tiles);
  }
  if (kernel_.together > 1) {
    thread_ = "tw_thread";
    line("const int tw_thread = threadIdx.x % {};", tile_threads_);
  }
  // From the first of a warp's threads: the compiler sees that it is the same for all of them.
  if (!swizzled_.empty()) line("const int tw_group = __shfl_sync(0xffffffffu, {} / {}, 0);", thread_, kGroupThreads);
  if (!loops.empty()) set_up_tma(loops);
  line("tw_begin();");
  const bool roles = tma_ring_ && !users_fetch_;
  if (roles) line("if (threadIdx.x < {}) {{", consumer_threads_);
  if (taken_registers_ > 0) line("tw_take_registers<{}>();", taken_registers_);
  tiles(WarpRole::kConsumer);
  if (roles) {
    line("}} else {{");
    if (taken_registers_ > 0) line("tw_give_registers<{}>();", kProducerRegisters);
    line("if (threadIdx.x == {}) {{", consumer_threads_);
    tiles(WarpRole::kProducer);
    line("}} }}");
  }
  TW_CHECK(kernel_.together == 1 || tma_ring_, "kernel {}: tiles together, but no TMA", kernel_.name);
  // No tile ends while others of its cluster may write to its memory.
  if (kernel_.cluster > 1) line("tw_cluster_arrive(), tw_cluster_wait();");
  return out_;
}

void KernelEmitter::find_swizzled() {
  for (const Stmt& step : group_steps(kernel_.body)) {
    loop::visit({step}, [&](const Stmt& s) {
      if (s->kind != StmtKind::kStore) return;
      visit(s->value, [&](const Expr& e) {
        if (e.op() == Op::kLoad) swizzled_.insert(e->name);
      });
    });
  }
  loop::visit(kernel_.body, [&](const Stmt& s) {
    const bool held = s->kind == StmtKind::kAllocate && s->allocated.scope == loop::Scope::kRegister;
    if (held) swizzled_.erase(s->allocated.name);
  });
}

int64_t KernelEmitter::registers_to_take() const {
  constexpr int64_t kOthers = 40, kHalfOfMemory = 113 * 1024;  // registers beside arrays; bytes: no two blocks fit then
  int64_t words = 0, bytes = 0;
  loop::visit(kernel_.body, [&](const Stmt& s) {
    if (s->kind == StmtKind::kFor && s->for_kind == loop::ForKind::kPipelined) {
      for (const loop::Buffer& b : loop::pipeline_parts(*s).buffers) bytes += b.size() * b.type.bytes() * s->stages;
    }
    if (s->kind != StmtKind::kAllocate || s->allocated.scope != loop::Scope::kRegister) return;
    words += s->allocated.size() * s->allocated.type.bytes() / 4 / tile_threads_;
  });
  const bool alone = kernel_.units > 0 || bytes > kHalfOfMemory;
  const int64_t threads = consumer_threads_ + kGroupThreads;
  if (!alone || consumer_threads_ % kGroupThreads != 0 || threads > kMaxThreads) return 0;
  // All have the same number when the block starts.
  const int64_t at_start = multiple_below(kRegisters / threads, kRegisterMultiple);
  const int64_t left = (threads * at_start - kGroupThreads * kProducerRegisters) / consumer_threads_;
  const int64_t taken = multiple_below(std::min(left, kMostRegisters), kRegisterMultiple);
  return words + kOthers > at_start && taken > at_start ? taken : 0;
}

void KernelEmitter::tiles(WarpRole role) {
  role_ = role;
  const std::string type = names_.narrow ? "int" : "long long";
  depth_ += tma_ring_ ? 1 : 0;
  if (tma_ring_) line("int {} = 0, {} = 0;", tma_ring_->slot, tma_ring_->phase);
  if (kernel_.units > 0) {
    walk(type);
  } else {
    if (!kernel_.tile_var.empty()) line("const {} tile = blockIdx.x;", type);
    statements(kernel_.body, Then::kEnd);
  }
  depth_ -= tma_ring_ ? 1 : 0;
}

void KernelEmitter::walk(const std::string& type) {
  const int64_t others = kernel_.together - 1;
  const bool user = role_ == WarpRole::kConsumer;
  std::string first = "blockIdx.x", step = "gridDim.x";
  if (user && others > 0) {
    line("const int tw_team = __shfl_sync(0xffffffffu, threadIdx.x / {}, 0);", tile_threads_);
    first += " + tw_team * gridDim.x";
    step = fmt::format("{} * gridDim.x", kernel_.together);
  }
  if (user) fill_once();
  const int64_t before = shared_;
  per_team_ = user && others > 0;
  if (user && others > 0) {
    skip("tw_team");
    line("if (tw_team == {}) tw_next<{}>(1);", others, 2 * tile_threads_);
  }
  nested(fmt::format("for ({} tile = {}; tile < {}; tile += {}) ", type, first, kernel_.tiles, step), [&] {
    statements(kernel_.body, Then::kEnd);
    // The next tile stores where this one loads.
    if (user && out_.shared_bytes > before) meet();
    if (user && others > 0) skip(fmt::format("{}", others));
  });
  per_team_ = false;
}

void KernelEmitter::fill_once() {
  const std::vector<OnceFilled> found = once_filled(kernel_);
  for (const OnceFilled& once : found) {
    const loop::Buffer& buffer = once.buffer;
    names_.buffers[buffer.name] = {share(buffer, 1), buffer.shape, {}, false, swizzled_bytes(buffer)};
    const auto fill = [&] { threads(once.fill, Then::kEnd); };
    kernel_.together > 1 ? nested("if (tw_team == 0) ", fill) : fill();
    filled_once_.insert(buffer.name);
  }
  if (found.empty()) return;
  tma_ring_ ? line("tw_meet<{}>({});", consumer_threads_, kernel_.together > 1 ? 1 + 2 * kernel_.together : 1)
            : line("__syncthreads();");
}

std::string KernelEmitter::text() const {
  std::vector<std::string> params;
  for (size_t i = 0; i < kernel_.params.size(); ++i) {
    const loop::Buffer& p = kernel_.params[i];
    const bool written = std::ranges::find(kernel_.written, p.name) != kernel_.written.end();
    params.push_back(fmt::format("{}{}* __restrict__ p{}", written ? "" : "const ", cuda_type(p.type), i));
  }
  for (size_t m = 0; m < out_.maps.size(); ++m) params.push_back(fmt::format("const __grid_constant__ tw_map m{}", m));
  const std::string shared =
      out_.shared_bytes > 0 ? "  extern __shared__ __align__(1024) unsigned char tw_shared[];\n" : "";
  const std::string cluster = kernel_.cluster > 1 ? fmt::format("__cluster_dims__({}, 1, 1) ", kernel_.cluster) : "";
  const std::string bounds = fmt::format("{}{}", out_.threads, taken_registers_ > 0 ? ", 1" : "");
  return fmt::format("extern \"C\" __global__ void {}__launch_bounds__({}) {}({}) {{\n{}{}}}\n", cluster, bounds,
                     out_.name, fmt::join(params, ", "), shared, text_);
}

void KernelEmitter::declare_params() {
  for (size_t i = 0; i < kernel_.params.size(); ++i)
    names_.buffers[kernel_.params[i].name] = {fmt::format("p{}", i), kernel_.params[i].shape, {}, false};
}

bool KernelEmitter::fits_narrow() const {
  const auto fits = [](const loop::Buffer& p) { return p.size() <= kMaxNarrow; };
  return kernel_.tiles <= kMaxNarrow && std::ranges::all_of(kernel_.params, fits);
}

void KernelEmitter::statements(const std::vector<Stmt>& stmts, Then then) {
  for (size_t i = 0; i < stmts.size(); ++i) {
    if (store_together(std::span(stmts).subspan(i)) || share_together(std::span(stmts).subspan(i)))
      i += kSharers - 1;
    else
      statement(stmts[i], i + 1 == stmts.size() ? then : Then::kMore);
  }
}

void KernelEmitter::statement(const Stmt& s, Then then) {
  if (!runs_beside_sums(s)) await_sums();
  switch (s->kind) {
    case StmtKind::kFor:
      if (s->for_kind == loop::ForKind::kMatrix) return matrix(s);
      if (s->for_kind == loop::ForKind::kPipelined) return pipelined(s, then);
      if (is_searched_by_warps(s)) return search(s);
      if (!loop::is_thread_loop(s)) return serial(s);
      return role_ == WarpRole::kConsumer ? threads(s, then) : void();
    case StmtKind::kLet:
      return let(s, then);
    case StmtKind::kStore:
      return store(s);
    case StmtKind::kIf:
      return branch(s, then);
    case StmtKind::kBlock:
      return statements(s->body, then);
    case StmtKind::kAllocate:
      return role_ == WarpRole::kConsumer ? allocate(s, then) : statements(s->body, then);
    case StmtKind::kPrefetch:
      return;
  }
}

void KernelEmitter::serial(const Stmt& s) {
  const std::string name = fresh();
  names_.variables[s->var] = name;
  names_.ranges.bind(s->var, 0, s->extent);
  nested(fmt::format("for ({0} {1} = 0; {1} < {2}; ++{1}) ", names_.narrow ? "int" : "long long", name, s->extent),
         [&] {
           statements(s->body, Then::kMore);
           await_sums();
         });
}

// As single_turns (lower/) leaves loops of sums at computed indices: let v be what a turn reads; if v is one's own, ..
bool KernelEmitter::is_searched_by_warps(const Stmt& s) const {
  if (group_ == nullptr || lanes_differ_ || group_->threads % kWarpThreads != 0 || s->extent < 2 * kWarpThreads)
    return false;
  if (s->for_kind != loop::ForKind::kSerial || s->body.size() != 1 || s->body[0]->kind != StmtKind::kLet) return false;
  const Stmt& let = s->body[0];
  if (let->value.type() != DataType::i64() || let->body.size() != 1) return false;
  const Stmt& branch = let->body[0];
  if (branch->kind != StmtKind::kIf || !branch->otherwise.empty()) return false;
  bool same = true, reads = false;  // all lanes find the same, which is in memory
  const auto look = [&](const Expr& whole) {
    visit(whole, [&](const Expr& e) {
      reads = reads || e.op() == Op::kLoad;
      same = same && (e.op() != Op::kLoad || is_read_only(e->name)) && !e.type().is_vector();
      if (!e.is_var() || e->name == s->var || e->name == let->var) return;
      const bool is_loop = std::ranges::any_of(group_->loops, [&](const Stmt& l) { return l->var == e->name; });
      same = same && !is_loop && !names_.data.contains(e->name);
    });
  };
  for (const Expr& e : {let->value, branch->predicate}) {
    look(e);
    look(substitute(e, lets_));
  }
  return same && reads;
}

void KernelEmitter::search(const Stmt& s) {
  const Stmt &let = s->body[0], &branch = let->body[0];
  const std::string type = names_.narrow ? "int" : "long long", first = fresh(), own = fresh(), hit = fresh(),
                    turn = fresh();
  const std::set<std::string> performed = names_.performed;
  names_.ranges.bind(s->var, 0, s->extent);
  nested(fmt::format("for ({0} {1} = 0; {1} < {2}; {1} += {3}) ", type, first, s->extent, kWarpThreads), [&] {
    line("const {} {} = {} + threadIdx.x % {};", type, own, first, kWarpThreads);
    line("bool {} = false;", hit);
    names_.variables[s->var] = own;
    nested(fmt::format("if ({} < {}) ", own, s->extent), [&] {
      define(let);
      line("{} = {};", hit, cuda_expr(branch->predicate, names_));
    });
    names_.performed = performed;
    nested(fmt::format("for (unsigned h = __ballot_sync(~0u, {}); h != 0; h &= h - 1) ", hit), [&] {
      line("const {} {} = {} + __ffs(h) - 1;", type, turn, first);
      names_.variables[s->var] = turn;
      define(let);
      statements(branch->body, Then::kMore);
    });
    names_.performed = performed;
  });
}

void KernelEmitter::let(const Stmt& s, Then then) {
  const std::set<std::string> performed = names_.performed;
  define(s);
  statements(s->body, then);
  names_.performed = performed;
}

void KernelEmitter::define(const Stmt& s) {
  const std::string name = fresh();
  prepare(s->value);
  const bool index = is_index(s->value, names_) && !s->value.type().is_vector();
  if (s->value.type().is_vector()) {
    line("{} {};", cuda_type(s->value.type()), name);
    lanes(s->value.type().lanes(), fmt::format("{}.v[l] = {};", name, cuda_expr(s->value, names_, "l")));
  } else {
    const std::string value = index ? cuda_index(s->value, names_) : cuda_expr(s->value, names_);
    line("const {} {} = {};", cuda_variable_type(s->value, names_), name, value);
    if (s->value.type() == DataType::i64()) bind_range(s);
    if (index) lets_[s->var] = substitute(s->value, lets_);
  }
  names_.evaluated.clear();
  names_.variables[s->var] = name;
  if (s->value.type().element() == DataType::i64() && !index) names_.data.insert(s->var);
  add_performed(s->value, names_);
}

void KernelEmitter::bind_range(const Stmt& s) {
  const Interval range = names_.ranges.bounds(s->value);
  if (range.lo > Interval::kMin && range.hi < Interval::kMax)
    names_.ranges.bind(s->var, range.lo, range.hi - range.lo + 1);
}

void KernelEmitter::branch(const Stmt& s, Then then) {
  prepare(s->predicate);
  const std::string condition = cuda_expr(s->predicate, names_);
  names_.evaluated.clear();
  const bool around = lanes_differ_;
  lanes_differ_ = around || (group_ != nullptr && uses_var(substitute(s->predicate, lets_), group_->loops.back()->var));
  const auto part = [&](const std::vector<Stmt>& body) {
    statements(body, then);
    await_sums();
  };
  nested(fmt::format("if ({}) ", condition), [&] { part(s->body); });
  if (!s->otherwise.empty()) nested("else ", [&] { part(s->otherwise); });
  lanes_differ_ = around;
}

}  // namespace tw::codegen
