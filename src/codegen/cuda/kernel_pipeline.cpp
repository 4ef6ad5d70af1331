// Loops whose buffers are filled ahead: by the threads that use them, or by TMA.

#include <algorithm>

#include "codegen/cuda/bulk.h"
#include "codegen/cuda/kernel_emitter.h"
#include "support/error.h"
#include "support/join.h"

namespace tw::codegen {
namespace {

constexpr int64_t kBarrierBytes = 8;

}  // namespace

void KernelEmitter::pipelined(const Stmt& s, Then then) {
  const loop::PipelineParts parts = loop::pipeline_parts(*s);
  if (!bulk_nests(parts.fill).empty()) return filled_by_tma(s, parts, then);
  if (role_ == WarpRole::kProducer) return;
  const std::set<std::string> sums = running_sums(parts.use);
  const int64_t before = shared_;
  Ring ring{s, parts.buffers, {}, fresh(), ""};
  for (const loop::Buffer& b : parts.buffers) ring.memory.push_back(share(b, std::min(s->stages, s->extent)));
  filled_by_threads(ring, parts, sums);
  end_groups(sums);
  if (then == Then::kMore) meet();
  shared_ = before;
}

void KernelEmitter::name_copies(const Ring& ring) {
  const Stmt& s = ring.loop;
  names_.variables[s->var] = ring.turn;
  names_.ranges.bind(s->var, 0, s->extent);
  for (size_t b = 0; b < ring.buffers.size(); ++b) {
    const loop::Buffer& buffer = ring.buffers[b];
    const std::string name = fresh(), type = cuda_type(buffer.type);
    line("{}* const {} = {} + {} * {};", type, name, ring.memory[b], ring.slot, stride_of(buffer));
    names_.buffers[buffer.name] = {name, buffer.shape, {}, false, swizzled_bytes(buffer)};
  }
}

void KernelEmitter::filled_by_threads(Ring ring, const loop::PipelineParts& parts, const std::set<std::string>& sums) {
  const Stmt s = ring.loop;
  ring.slot = fmt::format("{} % {}", ring.turn, s->stages);
  // Instructions of one iteration run on while the next one begins: its buffers are still in use.
  const int64_t ahead = s->stages - (sums.empty() ? 1 : 2);
  TW_CHECK(sums.empty() || ahead > 0, "kernel {}: loop {} needs 3 stages", kernel_.name, s->var);
  const std::string turn = fresh();
  const auto wait = [&] {
    nested(fmt::format("if ({} >= 0) ", turn), [&] {
      line("tw_copies_done<{}>();", std::max<int64_t>(0, ahead - 1));
      meet();
    });
  };
  const auto iteration = [&](const std::string& condition, const std::string& number, const auto& body) {
    nested(fmt::format("if ({}) ", condition), [&] {
      line("const int {} = {};", ring.turn, number);
      name_copies(ring);
      body();
    });
  };
  nested(fmt::format("for (int {0} = -{1}; {0} < {2}; ++{0}) ", turn, ahead, s->extent), [&] {
    if (ahead > 0) wait();
    iteration(fmt::format("{} < {}", turn, s->extent - ahead), fmt::format("{} + {}", turn, ahead), [&] {
      fills_ahead_ = true;
      for (const Stmt& part : parts.fill) statement(part, Then::kEnd);
      fills_ahead_ = false;
    });
    line("tw_copies_begun();");
    if (ahead == 0) wait();
    iteration(turn + " >= 0", turn, [&] {
      use(parts);
      if (!sums.empty()) line("tw_matrix_done<1>();");
    });
    if (ahead == 0) meet();
  });
}

void KernelEmitter::use(const loop::PipelineParts& parts) {
  const bool around = std::exchange(in_pipeline_, true);
  const std::set<std::string> stored_around = std::exchange(stored_in_turn_, {});
  const std::set<std::string> running_around = std::exchange(running_, running_sums(parts.use));
  loop::visit(parts.use, [&](const Stmt& s) {
    if (s->kind == StmtKind::kStore) stored_in_turn_.insert(s->buffer);
  });
  statements(parts.use, Then::kEnd);
  await_sums();
  in_pipeline_ = around;
  stored_in_turn_ = stored_around;
  running_ = running_around;
}

// One thread behind the others tells TMA what to fetch; barriers say which copy of the buffers is full and which is
// empty again (PTX ISA, "mbarrier"). Tiles of a cluster fetch for each other, so that a copy is empty when all of them
// have used theirs.
void KernelEmitter::set_up_tma(const std::vector<Stmt>& loops) {
  const Stmt& s = loops.front();
  TW_CHECK(kernel_.together == 1 || loops.size() == 1, "kernel {}: tiles together in {} pipelined loops", kernel_.name,
           loops.size());
  Ring ring{s, loop::pipeline_parts(*s).buffers, {}, "", fresh(), fresh(), fresh(), fresh()};
  for (const loop::Buffer& b : ring.buffers) ring.memory.push_back(share(b, s->stages));
  line("unsigned long long* const {} = (unsigned long long*)(tw_shared + {});", ring.full,
       reserve(2 * kBarrierBytes * s->stages));
  line("unsigned long long* const {} = {} + {};", ring.empty, ring.full, s->stages);
  shared_ += 2 * kBarrierBytes * s->stages;
  line("if (threadIdx.x == {}) tw_barriers<{}>({}, {}, {});", users_fetch_ ? 0 : consumer_threads_, s->stages,
       ring.full, ring.empty, tile_threads_ / kGroupThreads * kernel_.cluster);
  line("{}", kernel_.cluster > 1 ? "tw_cluster_arrive(), tw_cluster_wait();" : "__syncthreads();");
  tma_ring_ = ring;
}

bool KernelEmitter::fetched_by_users(const std::vector<Stmt>& loops) const {
  const auto ends = [](const Stmt& s) { return running_sums(loop::pipeline_parts(*s).use).empty(); };
  return loops.size() == 1 && kernel_.units == 0 && kernel_.cluster == 1 && consumer_threads_ == kGroupThreads &&
         ends(loops.front());
}

void KernelEmitter::turns_of_users(Ring ring, const Expr& needed, const loop::PipelineParts& parts) {
  Ring ahead = ring;
  ahead.turn = fresh(), ahead.slot = fresh();
  const std::string next = fresh();
  names_.variables[ring.loop->var] = ahead.turn;
  line("int {} = 0, {} = {};", ahead.turn, ahead.slot, ring.slot);
  nested(fmt::format("const auto {} = [&]() ", next), [&] {
    if (needed) line("while ({0} < {1} && !({2})) ++{0};", ahead.turn, ring.loop->extent, cuda_expr(needed, names_));
    line("if ({} >= {}) return;", ahead.turn, ring.loop->extent);
    name_copies(ahead);
    fetch(parts, fmt::format("{} + {}", ring.full, ahead.slot));
    line("++{};", ahead.turn);
    line("if (++{0} == {1}) {0} = 0;", ahead.slot, ring.loop->stages);
  });
  line(";");
  line("if (threadIdx.x == 0) for (int i = 0; i < {}; ++i) {}();", ring.loop->stages, next);
  turns(ring, needed, [&] {
    line("tw_barrier_wait({} + {}, {});", ring.full, ring.slot, ring.phase);
    use(parts);
    line("tw_meet<{}>(1);", consumer_threads_);
    line("if (threadIdx.x == 0) {}();", next);
  });
}

void KernelEmitter::skip(const std::string& tiles) {
  const auto once = [&](const auto& self, const std::vector<Stmt>& stmts) -> bool {
    return std::ranges::any_of(
        stmts, [&](const Stmt& s) { return s.same(tma_ring_->loop) || (runs_body_once(s) && self(self, s->body)); });
  };
  TW_CHECK(tma_ring_ && once(once, kernel_.body), "kernel {}: tiles together have other numbers of k-blocks",
           kernel_.name);
  line("tw_skip<{}>({}, {}, {} * {});", tma_ring_->loop->stages, tma_ring_->slot, tma_ring_->phase, tiles,
       tma_ring_->loop->extent);
}

template <typename Body>
void KernelEmitter::turns(const Ring& ring, const Expr& needed, const Body& body) {
  names_.variables[ring.loop->var] = ring.turn;
  const std::string test = needed ? fmt::format("if ({}) ", cuda_expr(needed, names_)) : "";
  nested(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {2}", ring.turn, ring.loop->extent, test), [&] {
    Ring copies = ring;
    if (role_ == WarpRole::kConsumer) {  // from the first of a warp's threads, as tw_group
      copies.slot = fresh();
      line("const int {} = __shfl_sync(0xffffffffu, {}, 0);", copies.slot, ring.slot);
    }
    name_copies(copies);
    body();
    line("if (++{0} == {1}) {0} = 0, {2} ^= 1;", ring.slot, ring.loop->stages, ring.phase);
  });
}

void KernelEmitter::release(const Ring& ring, const std::string& slot, const std::string& condition) {
  line("if (threadIdx.x % {0} < {1}{2}) tw_barrier_arrive<{1}>({3} + {4}, threadIdx.x % {0});", kGroupThreads,
       kernel_.cluster, condition, ring.empty, slot);
}

void KernelEmitter::take_condition(std::vector<Stmt>& stmts, std::vector<Expr>& conditions) {
  std::vector<Stmt> inside;
  for (const Stmt& s : stmts) {
    if (s->kind == StmtKind::kAllocate) {
      std::vector<Stmt> body = s->body;
      take_condition(body, conditions);
      inside.push_back(loop::make_allocate(s->allocated, std::move(body)));
      continue;
    }
    const bool guarded = s->kind == StmtKind::kIf && s->otherwise.empty();
    conditions.push_back(guarded ? s->predicate : Expr());
    guarded ? append(inside, s->body) : inside.push_back(s);
  }
  stmts = std::move(inside);
}

Expr KernelEmitter::needed_turns(loop::PipelineParts& parts) {
  loop::PipelineParts inside = parts;
  std::vector<Expr> conditions;
  for (std::vector<Stmt>* stmts : {&inside.fill, &inside.use}) take_condition(*stmts, conditions);
  const auto is_one = [&](const Expr& c) { return c && equal(c, conditions.front()); };
  if (conditions.empty() || !std::ranges::all_of(conditions, is_one)) return {};
  parts = std::move(inside);
  return conditions.front();
}

void KernelEmitter::filled_by_tma(const Stmt& s, loop::PipelineParts parts, Then then) {
  const std::set<std::string> sums = running_sums(parts.use);
  TW_CHECK(!group_steps(parts.use).empty() && s->stages >= std::min<int64_t>(2, s->extent),
           "kernel {}: loop {} fills by bulk copies, for no warp groups or one stage", kernel_.name, s->var);
  Ring ring = *tma_ring_;
  const auto alike = [](const loop::Buffer& a, const loop::Buffer& b) {
    return a.type == b.type && a.shape == b.shape;
  };
  TW_CHECK(s->stages == ring.loop->stages && std::ranges::equal(parts.buffers, ring.buffers, alike),
           "kernel {}: loop {} fills other buffers by bulk copies than {}", kernel_.name, s->var, ring.loop->var);
  ring.loop = s;
  ring.buffers = parts.buffers;
  ring.turn = fresh();
  // Instructions whose sums go on from turn to turn leave their copy of the buffers when the next turn waits for them.
  const bool runs_on = !sums.empty();
  const Expr needed = runs_on ? Expr() : needed_turns(parts);
  if (users_fetch_) return turns_of_users(ring, needed, parts);
  if (role_ == WarpRole::kProducer) {
    return turns(ring, needed, [&] {
      // The first round finds all copies empty.
      line("tw_barrier_wait({} + {}, {} ^ 1);", ring.empty, ring.slot, ring.phase);
      fetch(parts, fmt::format("{} + {}", ring.full, ring.slot));
    });
  }
  const std::string before = fmt::format("({0} == 0 ? {1} : {0} - 1)", ring.slot, ring.loop->stages - 1);
  // Consumers compute one after the other, so that who waits for a copy knows those before it to have come: parities
  // tell no more than the next one from this one.
  const bool several = kernel_.together > 1;
  if (several) line("tw_meet<{}>(1 + tw_team);", 2 * tile_threads_);
  turns(ring, needed, [&] {
    line("tw_barrier_wait({} + {}, {});", ring.full, ring.slot, ring.phase);
    use(parts);
    if (!runs_on) return release(ring, ring.slot, "");
    // The instructions of the turn before are done, and with them its copy of the buffers.
    line("tw_matrix_done<1>();");
    release(ring, before, fmt::format(" && {} > 0", ring.turn));
  });
  if (several) line("tw_next<{}>(1 + (tw_team + 1) % {});", 2 * tile_threads_, kernel_.together);
  if (runs_on) {
    end_groups(sums);
    release(ring, before, "");
  }
  std::set<std::string> own;
  for (const loop::Buffer& b : ring.buffers) own.insert(b.name);
  if (then == Then::kMore && is_shared(parts.use, own)) meet();
}

bool KernelEmitter::is_alike(const std::vector<Expr>& indices) const {
  const Expr first = var(kernel_.tile_var) * int_imm(kernel_.cluster);
  Analyzer ranges;
  ranges.bind(kernel_.tile_var, 0, kernel_.tiles / kernel_.cluster);
  const auto at = [&](const Expr& index, int64_t tile) {
    return ranges.simplify(substitute(substitute(index, lets_), {{kernel_.tile_var, first + int_imm(tile)}}));
  };
  return std::ranges::all_of(indices, [&](const Expr& index) {
    const Expr one = at(index, 0);
    for (int64_t tile = 1; tile < kernel_.cluster; ++tile) {
      if (!equal(one, at(index, tile))) return false;
    }
    return true;
  });
}

void KernelEmitter::fetch(const loop::PipelineParts& parts, const std::string& barrier) {
  std::vector<BulkCopy> copies;
  int64_t bytes = 0;
  for (const Stmt& nest : bulk_nests(parts.fill)) {
    copies.push_back(bulk_copy(nest, kernel_.params, names_.ranges));
    const DataType type = std::ranges::find(parts.buffers, copies.back().buffer, &loop::Buffer::name)->type;
    bytes += num_elements(copies.back().box) * type.bytes();
  }
  line("tw_barrier_expect({}, {});", barrier, bytes);
  names_.variables["cluster.rank"] = "tw_cluster_rank()";
  for (BulkCopy& copy : copies) {
    const bool shared = kernel_.cluster > 1 && is_alike(copy.start);
    if (shared) take_part(copy, kernel_.cluster, var("cluster.rank"));
    const auto param = std::ranges::find(kernel_.params, copy.tensor, &loop::Buffer::name);
    std::vector<std::string> start;
    for (size_t d = copy.start.size(); d-- > 0;) start.push_back(cuda_index(copy.start[d], names_));
    if (copy.pixels) {
      const std::vector<Expr>& offsets = copy.pixels->offsets;
      for (size_t d = offsets.size(); d-- > 0;) start.push_back(cuda_index(offsets[d], names_));
    }
    line("tw_fetch{}<{}>(&m{}, &{}, {}, {});", copy.pixels ? "_window" : "", shared ? kernel_.cluster : 1,
         out_.maps.size(), cuda_element(copy.buffer, copy.to, names_), barrier, fmt::join(start, ", "));
    out_.maps.push_back({static_cast<size_t>(param - kernel_.params.begin()), copy.shape, copy.box,
                         copy.pixels ? copy.pixels->windows : CudaWindows()});
  }
}

}  // namespace tw::codegen
