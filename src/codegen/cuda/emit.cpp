#include "codegen/cuda/emit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/cuda/emit_expr.h"
#include "codegen/cuda/matrix.h"
#include "codegen/cuda/threads.h"
#include "core/model_units.h"
#include "expr/scalar.h"
#include "support/error.h"
#include "support/math.h"
#include "te/te.h"

namespace tw::codegen {
namespace {

using loop::Stmt;
using loop::StmtKind;

constexpr int64_t kMostThreads = 1024;                              // of a block
constexpr int64_t kMostNarrow = int64_t{1} << 30;                   // elements: sums of a few indices stay below 2^31
constexpr int64_t kSharedAlignment = 16;                            // bytes
constexpr int64_t kScratchBytes = kMostThreads / kWarpThreads * 8;  // an element of each warp

// Whether the statement at hand is the last one of the kernel: no thread waits after it.
enum class Then : uint8_t { kMore, kEnd };

class KernelEmitter {
 public:
  KernelEmitter(const loop::Kernel& kernel, std::string name) : kernel_(kernel), out_{std::move(name)} {}

  CudaKernel run() {
    const int64_t threads = most_threads(kernel_.body);
    TW_CHECK(threads <= kMostThreads, "kernel {}: {} threads in a block", kernel_.name, threads);
    if (threads > 0) out_.threads = ceil_div(threads, kWarpThreads) * kWarpThreads;
    has_threads_ = threads > 0;
    declare_params();
    names_.narrow = fits_narrow();
    if (!kernel_.tile_var.empty()) {
      names_.variables[kernel_.tile_var] = "tile";
      names_.ranges.bind(kernel_.tile_var, 0, kernel_.tiles);
      line("const {} tile = blockIdx.x;", names_.narrow ? "int" : "long long");
    }
    statements(kernel_.body, Then::kEnd);
    return out_;
  }

  std::string text() const {
    std::vector<std::string> params;
    for (size_t i = 0; i < kernel_.params.size(); ++i) {
      const loop::Buffer& p = kernel_.params[i];
      const bool written = std::ranges::find(kernel_.written, p.name) != kernel_.written.end();
      params.push_back(fmt::format("{}{}* __restrict__ p{}", written ? "" : "const ", cuda_type(p.type), i));
    }
    const std::string shared =
        out_.shared_bytes > 0 ? "  extern __shared__ __align__(16) unsigned char tw_shared[];\n" : "";
    return fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}({}) {{\n{}{}}}\n", out_.threads,
                       out_.name, fmt::join(params, ", "), shared, text_);
  }

 private:
  void declare_params() {
    for (size_t i = 0; i < kernel_.params.size(); ++i)
      names_.buffers[kernel_.params[i].name] = {fmt::format("p{}", i), kernel_.params[i].shape, {}, false};
  }

  bool fits_narrow() const {
    const auto fits = [](const loop::Buffer& p) { return p.size() <= kMostNarrow; };
    return kernel_.tiles <= kMostNarrow && std::ranges::all_of(kernel_.params, fits);
  }

  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += std::string(2 * depth_, ' ') + fmt::format(format, std::forward<Args>(args)...) + "\n";
  }

  std::string fresh() { return fmt::format("v{}", counter_++); }

  void statements(const std::vector<Stmt>& stmts, Then then) {
    for (const Stmt& s : stmts) statement(s, &s == &stmts.back() ? then : Then::kMore);
  }

  void block(const std::vector<Stmt>& stmts, Then then) {
    ++depth_;
    statements(stmts, then);
    --depth_;
  }

  void statement(const Stmt& s, Then then) {
    switch (s->kind) {
      case StmtKind::kFor:
        if (s->for_kind == loop::ForKind::kMatrix) return matrix(s);
        if (s->for_kind == loop::ForKind::kPipelined) return pipelined(s, then);
        return loop::is_thread_loop(s) ? threads(s, then) : serial(s);
      case StmtKind::kLet:
        return let(s, then);
      case StmtKind::kStore:
        return store(s);
      case StmtKind::kIf:
        return branch(s, then);
      case StmtKind::kBlock:
        return statements(s->body, then);
      case StmtKind::kAllocate:
        return allocate(s, then);
      case StmtKind::kPrefetch:
        return;
    }
  }

  void serial(const Stmt& s) {
    const std::string name = fresh();
    names_.variables[s->var] = name;
    names_.ranges.bind(s->var, 0, s->extent);
    line("for ({0} {1} = 0; {1} < {2}; ++{1}) {{", names_.narrow ? "int" : "long long", name, s->extent);
    block(s->body, Then::kMore);
    line("}}");
  }

  // ---- Threads.

  void threads(const Stmt& s, Then then) {
    const ThreadGroup group = thread_group(s);
    line("{{");
    ++depth_;
    int64_t inner = group.threads;
    for (const Stmt& l : group.loops) {
      inner /= l->extent;
      const std::string name = fresh();
      names_.variables[l->var] = name;
      names_.ranges.bind(l->var, 0, l->extent);
      const std::string turn = inner == 1 ? "threadIdx.x" : fmt::format("threadIdx.x / {}", inner);
      line("const int {} = {};", name, &l == &group.loops.front() ? turn : fmt::format("{} % {}", turn, l->extent));
    }
    group_ = &group;
    const std::optional<Combination> combination = combination_of(group);
    if (combination) {
      combine(group, *combination);
    } else {
      by_threads(group, [&] { statements(group.body(), Then::kEnd); });
    }
    group_ = nullptr;
    --depth_;
    line("}}");
    if (then == Then::kMore) line("__syncthreads();");
  }

  // Iteration i uses what an earlier turn has begun to fill for it; meanwhile the buffers that iteration i - 1 has used
  // are filled for the one that comes stages - 1 later.
  void pipelined(const Stmt& s, Then then) {
    const loop::PipelineParts parts = loop::pipeline_parts(*s);
    const int64_t before = shared_, ahead = s->stages - 1;
    const std::string turn = fresh(), i = fresh();
    std::vector<std::string> memory;
    for (const loop::Buffer& b : parts.buffers) memory.push_back(share(b, s->stages));
    line("for (int {0} = -{1}; {0} < {2}; ++{0}) {{", turn, ahead, s->extent);
    ++depth_;
    line("if ({} >= 0) {{", turn);
    line("  tw_copies_done<{}>();", std::max<int64_t>(0, ahead - 1));
    line("  __syncthreads();");
    line("}}");
    const auto iteration = [&](const std::string& condition, const std::string& number, const auto& body) {
      line("if ({}) {{", condition);
      ++depth_;
      line("const int {} = {};", i, number);
      names_.variables[s->var] = i;
      names_.ranges.bind(s->var, 0, s->extent);
      for (size_t b = 0; b < parts.buffers.size(); ++b) {
        const std::string name = fresh(), type = cuda_type(parts.buffers[b].type);
        line("{}* const {} = {} + {} % {} * {};", type, name, memory[b], i, s->stages, stride_of(parts.buffers[b]));
        names_.buffers[parts.buffers[b].name] = {name, parts.buffers[b].shape, {}, false};
      }
      body();
      --depth_;
      line("}}");
    };
    iteration(fmt::format("{} < {}", turn, s->extent - ahead), fmt::format("{} + {}", turn, ahead), [&] {
      fills_ahead_ = true;
      for (const Stmt& fill : parts.fill) statement(fill, Then::kEnd);
      fills_ahead_ = false;
    });
    line("tw_copies_begun();");
    iteration(turn + " >= 0", turn, [&] { statements(parts.use, Then::kEnd); });
    if (ahead == 0) line("__syncthreads();");
    --depth_;
    line("}}");
    if (then == Then::kMore) line("__syncthreads();");
    shared_ = before;
  }

  template <typename Body>
  void by_threads(const ThreadGroup& group, const Body& body) {
    const bool all = group.threads == out_.threads;
    if (!all) line("if (threadIdx.x < {}) {{", group.threads);
    depth_ += all ? 0 : 1;
    body();
    depth_ -= all ? 0 : 1;
    if (!all) line("}}");
  }

  // Each thread combines its terms in a register, then runs of threads combine theirs, then the first one of a run
  // combines that with what the element held.
  void combine(const ThreadGroup& group, const Combination& c) {
    const std::string type = cuda_type(c.type), mine = fresh(), function = fresh(), total = fresh();
    line("{} {}[1] = {{{}}};", type, mine, cuda_expr(te::identity_of(*te::combiner_of(c.op), c.type), names_));
    const CudaNames::Array array = names_.buffers.at(c.buffer);
    names_.buffers[c.buffer] = {mine, {}, std::vector<bool>(array.shape.size(), true), true};
    by_threads(group, [&] { statements(group.body(), Then::kEnd); });
    names_.buffers[c.buffer] = array;
    line("const auto {} = []({} a, {} b) {{ return {}; }};", function, type, type, combined(c.op, c.type, "a", "b"));
    const std::string scratch = c.run > kWarpThreads
                                    ? fmt::format("({}*)(tw_shared + {})", type, reserve(kScratchBytes))
                                    : fmt::format("({}*)0", type);
    line("const {} {} = tw_combine<{}>({}[0], {}, {});", type, total, c.run, mine, function, scratch);
    by_threads(group, [&] {
      const std::string element = cuda_element(c.buffer, c.indices, names_);
      line("if (threadIdx.x % {} == 0) {} = {};", c.run, element, combined(c.op, c.type, element, total));
    });
  }

  // Bytes of shared memory from here to the end of the enclosing allocation.
  int64_t reserve(int64_t bytes) {
    const int64_t at = shared_;
    out_.shared_bytes = std::max(out_.shared_bytes, at + bytes);
    return at;
  }

  // Elements from one copy of a shared buffer to the next.
  static int64_t stride_of(const loop::Buffer& buffer) {
    const int64_t unit = kSharedAlignment / buffer.type.bytes();
    return ceil_div(buffer.size(), unit) * unit;
  }

  // The name of shared memory for `copies` of a buffer, until the enclosing statement ends.
  std::string share(const loop::Buffer& buffer, int64_t copies) {
    const int64_t bytes = stride_of(buffer) * buffer.type.bytes() * copies;
    std::string name = fresh();
    line("{0}* const {1} = ({0}*)(tw_shared + {2});", cuda_type(buffer.type), name, reserve(bytes));
    shared_ += bytes;
    return name;
  }

  void allocate(const Stmt& s, Then then) {
    const loop::Buffer& buffer = s->allocated;
    const std::string name = fresh(), type = cuda_type(buffer.type);
    const bool of_threads = has_threads_ && group_ == nullptr;
    const int64_t before = shared_;
    CudaNames::Array array{name, buffer.shape, {}, buffer.scope == loop::Scope::kRegister};
    if (of_threads && array.in_registers) {
      array.of_thread = thread_dims(buffer, s->body);
      array.shape.clear();
      for (size_t d = 0; d < buffer.shape.size(); ++d) {
        if (!array.of_thread[d]) array.shape.push_back(buffer.shape[d]);
      }
    }
    if (of_threads && !array.in_registers) {
      array.name = share(buffer, 1);
    } else {
      line("{} {}[{}];", type, name, std::max<int64_t>(1, num_elements(array.shape)));
    }
    names_.buffers[buffer.name] = std::move(array);
    statements(s->body, then);
    shared_ = before;
  }

  // ---- What a warp does.

  void matrix(const Stmt& s) {
    TW_CHECK(group_ != nullptr, "kernel {}: a matrix step outside of threads", kernel_.name);
    const MatrixStep step = matrix_step(s, *group_, names_.ranges);
    std::vector<std::string> operands;
    for (const std::vector<Expr>& d : step.d) operands.push_back(cuda_element(step.sums, d, names_));
    for (const MatrixStep::Pair& pair : step.a) operands.push_back(pair_text(pair));
    for (const MatrixStep::Pair& pair : step.b) operands.push_back(pair_text(pair));
    line("tw_mma_{}({});", to_string(step.type), fmt::join(operands, ", "));
  }

  // Two neighbours in one access where they lie so.
  std::string pair_text(const MatrixStep::Pair& pair) const {
    const std::vector<Expr>& first = pair.low->args;
    std::vector<Expr> both = first;
    if (!both.empty() && equal(names_.ranges.simplify(both.back() + int_imm(1)), pair.high->args.back())) {
      both.back() = ramp(first.back(), int_imm(1), 2);
      const std::string whole = cuda_vector(pair.low->name, pair.low.type().with_lanes(2), both, names_);
      if (!whole.empty()) return fmt::format("tw_bits<unsigned>({})", whole);
    }
    return fmt::format("tw_pair({}, {})", cuda_expr(pair.low, names_), cuda_expr(pair.high, names_));
  }

  // ---- What one thread does.

  void let(const Stmt& s, Then then) {
    const std::string name = fresh();
    prepare(s->value);
    if (s->value.type().is_vector()) {
      line("{} {};", cuda_type(s->value.type()), name);
      lanes(s->value.type().lanes(), fmt::format("{}.v[l] = {};", name, cuda_expr(s->value, names_, "l")));
    } else {
      const std::string value = is_index(s->value) ? cuda_index(s->value, names_) : cuda_expr(s->value, names_);
      line("const {} {} = {};", cuda_variable_type(s->value, names_), name, value);
      if (s->value.type() == DataType::i64()) bind_range(s);
    }
    names_.evaluated.clear();
    names_.variables[s->var] = name;
    statements(s->body, then);
  }

  void bind_range(const Stmt& s) {
    const Interval range = names_.ranges.bounds(s->value);
    if (range.lo > Interval::kMin && range.hi < Interval::kMax)
      names_.ranges.bind(s->var, range.lo, range.hi - range.lo + 1);
  }

  void lanes(int count, const std::string& statement) {
    line("#pragma unroll");
    line("for (int l = 0; l < {}; ++l) {}", count, statement);
  }

  void store(const Stmt& s) {
    line("{{");
    ++depth_;
    if (!copy_ahead(s)) {
      prepare(s->value);
      if (s->predicate) prepare(s->predicate);
      s->value.type().is_vector() ? vector_store(s) : scalar_store(s);
    }
    names_.evaluated.clear();
    --depth_;
    line("}}");
  }

  void scalar_store(const Stmt& s) {
    line("{}{} = {};", condition(s, ""), cuda_element(s->buffer, s->indices, names_), cuda_expr(s->value, names_));
  }

  std::string condition(const Stmt& s, const std::string& lane) const {
    return s->predicate ? fmt::format("if ({}) ", cuda_expr(s->predicate, names_, lane)) : "";
  }

  // Whether a store of a pipelined loop is a copy from memory, which goes on while others compute.
  bool copy_ahead(const Stmt& s) {
    const DataType type = s->value.type();
    const int bytes = type.bytes() * type.lanes();
    const MaybeLoad from = maybe_load(s->value);
    if (!fills_ahead_ || s->predicate || !from.load || bytes % 4 != 0 || kSharedAlignment % bytes != 0) return false;
    const std::string to = place(s->buffer, type, s->indices);
    const std::string source = place(from.load->name, type, from.load->args);
    if (to.empty() || source.empty()) return false;
    if (from.condition) prepare(from.condition);
    line("tw_copy_async<{}>(&{}, &{}, {});", bytes, to, source,
         from.condition ? cuda_expr(from.condition, names_) : std::string("true"));
    return true;
  }

  // An element, or a vector that lies in memory as a whole; else nothing.
  std::string place(const std::string& buffer, DataType type, const std::vector<Expr>& indices) const {
    return type.is_vector() ? cuda_vector(buffer, type, indices, names_) : cuda_element(buffer, indices, names_);
  }

  // What memory holds, or zeros where a condition of all lanes fails.
  struct MaybeLoad {
    Expr load, condition;
  };
  static MaybeLoad maybe_load(const Expr& e) {
    const auto is_load = [](const Expr& x) { return x.op() == Op::kLoad && !x->predicated; };
    if (is_load(e)) return {e, Expr()};
    if (e.op() != Op::kSelect || e.arg(0).type().is_vector() || !is_load(e.arg(1))) return {};
    const Expr& other = e.arg(2).op() == Op::kBroadcast ? e.arg(2).arg(0) : e.arg(2);
    const bool zeros = other.op() == Op::kFloatImm && other->number == 0;
    return zeros ? MaybeLoad{e.arg(1), e.arg(0)} : MaybeLoad{};
  }

  void vector_store(const Stmt& s) {
    const DataType type = s->value.type();
    const std::string value = cuda_expr(s->value, names_, "l");
    const std::string whole = s->predicate ? "" : cuda_vector(s->buffer, type, s->indices, names_);
    if (whole.empty()) {
      return lanes(type.lanes(), fmt::format("{}{} = {};", condition(s, "l"),
                                             cuda_element(s->buffer, s->indices, names_, "l"), value));
    }
    const std::string name = fresh();
    line("{} {};", cuda_type(type), name);
    lanes(type.lanes(), fmt::format("{}.v[l] = {};", name, value));
    line("{} = {};", whole, name);
  }

  // Evaluates before the statement what one lane's text cannot: whole vectors in memory, reductions over lanes.
  // Operands that a select may not touch are left to it.
  void prepare(const Expr& e) {
    if (names_.evaluated.contains(&*e)) return;
    if (e.op() == Op::kSelect) {
      prepare(e.arg(0));
      return prepare_maybe_load(e);
    }
    for (const Expr& arg : e->args) prepare(arg);
    if (e.op() == Op::kLoad && e.type().is_vector() && !e->predicated) return prepare_load(e);
    if (is_lane_reduction(e.op())) prepare_reduction(e);
  }

  void prepare_maybe_load(const Expr& e) {
    const MaybeLoad from = maybe_load(e);
    if (!from.load || !e.type().is_vector()) return;
    const std::string whole = cuda_vector(from.load->name, from.load.type(), from.load->args, names_);
    if (whole.empty()) return;
    const std::string name = fresh();
    line("{} {} = {{}};", cuda_type(e.type()), name);
    line("if ({}) {} = {};", cuda_expr(from.condition, names_), name, whole);
    names_.evaluated[&*e] = name;
  }

  void prepare_load(const Expr& e) {
    const std::string whole = cuda_vector(e->name, e.type(), e->args, names_);
    if (whole.empty()) return;
    const std::string name = fresh();
    line("const {} {} = {};", cuda_type(e.type()), name, whole);
    names_.evaluated[&*e] = name;
  }

  void prepare_reduction(const Expr& e) {
    const std::string name = fresh();
    const Op op = lane_operation(e.op());
    const auto lane = [&](const std::string& index) { return fmt::format("{}[{}]", name, index); };
    const auto add = [&](const std::string& into, const std::string& from) {
      return fmt::format("{} = {};", lane(into), combined(op, e.type(), lane(into), lane(from)));
    };
    const DataType vector = e.arg(0).type();
    line("{} {};", cuda_type(e.type()), lane(fmt::format("{}", vector.lanes())));
    lanes(vector.lanes(), fmt::format("{} = {};", lane("l"), cuda_expr(e.arg(0), names_, "l")));
    combine_lanes(
        vector.lanes(), [&](int last) { line("{}", add("0", fmt::format("{}", last))); },
        [&](int half) { lanes(half, add("l", fmt::format("l + {}", half))); });
    names_.evaluated[&*e] = lane("0");
  }

  // C++ of a op b for two values that have names.
  static std::string combined(Op op, DataType type, const std::string& a, const std::string& b) {
    CudaNames two;
    two.variables = {{"a", a}, {"b", b}};
    return cuda_expr(binary(op, var("a", type), var("b", type)), two);
  }

  void branch(const Stmt& s, Then then) {
    prepare(s->predicate);
    line("if ({}) {{", cuda_expr(s->predicate, names_));
    names_.evaluated.clear();
    block(s->body, then);
    if (!s->otherwise.empty()) {
      line("}} else {{");
      block(s->otherwise, then);
    }
    line("}}");
  }

  const loop::Kernel& kernel_;
  CudaKernel out_;
  CudaNames names_;
  std::string text_;
  int64_t shared_ = 0;  // bytes in use
  bool has_threads_ = false;
  const ThreadGroup* group_ = nullptr;  // at hand
  bool fills_ahead_ = false;            // the buffers of a pipelined loop
  int depth_ = 1;
  int counter_ = 0;
};

}  // namespace

CudaSource emit_cuda(const loop::Program& program) {
  CudaSource source;
  source.text = cuda_prelude();
  for (size_t k = 0; k < program.kernels.size(); ++k) {
    KernelEmitter emitter(program.kernels[k], fmt::format("tw_kernel_{}", k));
    source.kernels.push_back(emitter.run());
    source.text += "\n" + emitter.text();
  }
  return source;
}

}  // namespace tw::codegen
