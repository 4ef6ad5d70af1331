// Buffers, and what one thread loads, computes and stores.
#include <algorithm>

#include "codegen/cuda/kernel_emitter.h"
#include "codegen/cuda/threads.h"
#include "core/target_info.h"
#include "expr/affine.h"
#include "expr/scalar.h"
#include "support/error.h"
#include "support/math.h"
#include "te/reads.h"

namespace tw::codegen {
namespace {

constexpr int64_t kSwizzledLine = 128;    // bytes
constexpr int64_t kSharedAlignment = 16;  // bytes

}  // namespace

int64_t KernelEmitter::reserve(int64_t bytes) {
  const int64_t at = shared_;
  out_.shared_bytes = std::max(out_.shared_bytes, at + bytes);
  return at;
}

int64_t KernelEmitter::stride_of(const loop::Buffer& buffer) const {
  const int64_t unit = alignment_of(buffer) / buffer.type.bytes();
  return ceil_div(buffer.size(), unit) * unit;
}

int KernelEmitter::swizzled_bytes(const loop::Buffer& buffer) const {
  const bool swizzled = swizzled_.contains(buffer.name);
  TW_CHECK(!swizzled || (!buffer.shape.empty() && buffer.shape.back() * buffer.type.bytes() == kSwizzledLine),
           "kernel {}: lines of {} are not of {} bytes", kernel_.name, buffer.name, kSwizzledLine);
  return swizzled ? buffer.type.bytes() : 0;
}

int64_t KernelEmitter::alignment_of(const loop::Buffer& buffer) const {
  return swizzled_bytes(buffer) > 0 ? 8 * kSwizzledLine : kSharedAlignment;
}

std::string KernelEmitter::share(const loop::Buffer& buffer, int64_t copies) {
  const int64_t teams = per_team_ ? kernel_.together : 1, unit = alignment_of(buffer);
  const int64_t bytes = ceil_div(stride_of(buffer) * buffer.type.bytes() * copies, unit) * unit;
  std::string name = fresh();
  shared_ = ceil_div(shared_, unit) * unit;
  line("{0}* const {1} = ({0}*)(tw_shared + {2}{3});", cuda_type(buffer.type), name, reserve(teams * bytes),
       teams > 1 ? fmt::format(" + {} * tw_team", bytes) : "");
  shared_ += teams * bytes;
  return name;
}

void KernelEmitter::allocate(const Stmt& s, Then then) {
  const loop::Buffer& buffer = s->allocated;
  if (filled_once_.contains(buffer.name)) return statements(s->body, then);
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
    array.swizzled = swizzled_bytes(buffer);
  } else {
    line("{} {}[{}];", type, name, std::max<int64_t>(1, num_elements(array.shape)));
  }
  names_.buffers[buffer.name] = std::move(array);
  if (of_threads) find_fresh_sums(s);
  statements(s->body, then);
  shared_ = before;
}

void KernelEmitter::lanes(int count, const std::string& statement) {
  line("#pragma unroll");
  line("for (int l = 0; l < {}; ++l) {}", count, statement);
}

void KernelEmitter::store(const Stmt& s) {
  nested("", [&] {
    if (copy_ahead(s)) return;
    stored_for_matrix_ = stored_for_matrix_ || swizzled_.contains(s->buffer);
    prepare(s->value);
    if (s->predicate) prepare(s->predicate);
    s->value.type().is_vector() ? vector_store(s) : scalar_store(s);
  });
  names_.evaluated.clear();
}

void KernelEmitter::scalar_store(const Stmt& s) {
  line("{}{} = {};", condition(s, ""), cuda_element(s->buffer, s->indices, names_), cuda_expr(s->value, names_));
}

std::string KernelEmitter::condition(const Stmt& s, const std::string& lane) const {
  return s->predicate ? fmt::format("if ({}) ", cuda_expr(s->predicate, names_, lane)) : "";
}

bool KernelEmitter::copy_ahead(const Stmt& s) {
  const DataType type = s->value.type();
  const int bytes = type.bytes() * type.lanes();
  const MaybeLoad from = maybe_load(s->value);
  const bool zeros = is_zero(s->value);
  if (!fills_ahead_ || s->predicate || bytes % 4 != 0 || kSharedAlignment % bytes != 0) return false;
  const bool loads = from.load && (!from.condition || is_zero(from.otherwise));
  if (!loads && !zeros) return false;
  const std::string source = zeros ? "*p0" : place(from.load->name, type, from.load->args);
  if (place(s->buffer, type, s->indices).empty() || source.empty()) return false;
  if (from.condition) prepare(from.condition);
  const std::string wanted = zeros ? "false" : from.condition ? cuda_expr(from.condition, names_) : "true";
  std::vector<Expr> first = s->indices;
  if (!first.empty() && first.back().op() == Op::kRamp) first.back() = first.back().arg(0);
  line("tw_copy_async<{}>({}, &{}, {});", bytes, apart(s->buffer, cuda_offset(s->buffer, first, names_)), source,
       wanted);
  return true;
}

std::string KernelEmitter::apart(const std::string& buffer, const CudaOffset& offset) const {
  return fmt::format("{}, {}, {}", names_.buffers.at(buffer).name, offset.varying.empty() ? "0" : offset.varying,
                     offset.constant);
}

std::string KernelEmitter::place(const std::string& buffer, DataType type, const std::vector<Expr>& indices) const {
  return type.is_vector() ? cuda_vector(buffer, type, indices, names_) : cuda_element(buffer, indices, names_);
}

KernelEmitter::MaybeLoad KernelEmitter::maybe_load(const Expr& e) {
  const auto is_load = [](const Expr& x) { return x.op() == Op::kLoad && !x->predicated; };
  if (is_load(e)) return {e, Expr(), Expr()};
  if (e.op() != Op::kSelect || e.arg(0).type().is_vector() || !is_load(e.arg(1))) return {};
  const Expr& other = e.arg(2).op() == Op::kBroadcast ? e.arg(2).arg(0) : e.arg(2);
  const bool constant = other.op() == Op::kIntImm || other.op() == Op::kFloatImm;
  return constant ? MaybeLoad{e.arg(1), e.arg(0), other} : MaybeLoad{};
}

void KernelEmitter::vector_store(const Stmt& s) {
  const DataType type = s->value.type();
  const std::string value = cuda_expr(s->value, names_, "l");
  const std::string whole = s->predicate ? "" : cuda_vector(s->buffer, type, s->indices, names_);
  if (whole.empty()) {
    return lanes(type.lanes(),
                 fmt::format("{}{} = {};", condition(s, "l"), cuda_element(s->buffer, s->indices, names_, "l"), value));
  }
  const std::string name = fresh();
  line("{} {};", cuda_type(type), name);
  lanes(type.lanes(), fmt::format("{}.v[l] = {};", name, value));
  line("{} = {};", whole, name);
}

bool KernelEmitter::are_stored_together(std::span<const Stmt> stmts) const {
  constexpr int64_t kPair = 2, kApart = kSharers * kPair;  // elements
  if (group_ == nullptr || lanes_differ_ || stmts.size() < kSharers || group_->threads % kWarpThreads != 0)
    return false;
  const Stmt& lanes = group_->loops.back();
  const Stmt& first = stmts[0];
  const auto is_pair = [&](const Stmt& s) {
    const bool stores = s->kind == StmtKind::kStore && !s->predicate && s->value.type().element().is_half() &&
                        s->value.type().lanes() == kPair && s->buffer == first->buffer && !s->indices.empty();
    return stores && s->indices.back().op() == Op::kRamp && s->indices.back().arg(1).is_int(1);
  };
  const auto to = std::ranges::find(kernel_.params, first->buffer, &loop::Buffer::name);
  if (lanes->extent != kSharers || !std::ranges::all_of(stmts.first(kSharers), is_pair) || to == kernel_.params.end() ||
      to->shape.back() % kApart != 0 || fills_ahead_)
    return false;
  for (int64_t i = 0; i < kSharers; ++i) {
    const std::vector<Expr>& at = stmts[static_cast<size_t>(i)]->indices;
    const Expr apart = names_.ranges.simplify(at.back().arg(0) - first->indices.back().arg(0));
    const auto same = [&](const Expr& a, const Expr& b) { return equal(a, b) && !uses_var(a, lanes->var); };
    if (!apart.is_int(i * kApart) || !std::equal(at.begin(), at.end() - 1, first->indices.begin(), same)) return false;
  }
  const Sum column = as_sum(names_.ranges.simplify(first->indices.back().arg(0)));
  return column.constant % kApart == 0 && column.coef_of(var(lanes->var)) == kPair &&
         std::ranges::all_of(column.terms, [&](const Term& t) {
           return t.coef % kApart == 0 || (t.atom.is_var() && t.atom->name == lanes->var);
         });
}

bool KernelEmitter::store_together(std::span<const Stmt> stmts) {
  if (!are_stored_together(stmts)) return false;
  nested("", [&] {
    std::vector<std::string> pairs;
    for (const Stmt& s : stmts.first(kSharers)) {
      prepare(s->value);
      pairs.push_back(fresh());
      line("{} {};", cuda_type(s->value.type()), pairs.back());
      lanes(s->value.type().lanes(), fmt::format("{}.v[l] = {};", pairs.back(), cuda_expr(s->value, names_, "l")));
      names_.evaluated.clear();
    }
    std::vector<Expr> first = stmts[0]->indices;
    first.back() = first.back().arg(0);
    // From where the lane's own pair of the first would lie: pairs are 2 apart, what lanes store is 8 apart.
    line("*(tw_vec<unsigned, 4>*)(&{} + 6 * {}) = tw_exchange({});", cuda_element(stmts[0]->buffer, first, names_),
         names_.variables.at(group_->loops.back()->var), fmt::join(pairs, ", "));
  });
  return true;
}

bool KernelEmitter::share_together(std::span<const Stmt> stmts) {
  if (stmts.size() < kSharers || stmts[0]->kind != StmtKind::kLet) return false;
  std::vector<Stmt> lets;
  std::vector<std::vector<Stmt>> stores;  // of each output
  for (size_t i = 0; i < kSharers; ++i) {
    VarMap own;  // names of these values: others have the same
    std::vector<Stmt> body = {stmts[i]};
    while (body.size() == 1 && body[0]->kind == StmtKind::kLet) {
      const Expr value = substitute(body[0]->value, own),
                 name = var(fmt::format("{}.{}", body[0]->var, i), value.type());
      lets.push_back(loop::make_let(name->name, value, {}));
      own[body[0]->var] = name;
      body = std::vector<Stmt>(body[0]->body);
    }
    stores.resize(std::max(stores.size(), body.size()));
    for (size_t k = 0; k < body.size(); ++k) {
      if (body[k]->kind != StmtKind::kStore || body[k]->predicate) return false;
      stores[k].push_back(loop::make_store(body[k]->buffer, body[k]->indices, substitute(body[k]->value, own)));
    }
  }
  const auto is_whole = [&](const std::vector<Stmt>& of) {
    const auto reads = [&](const Stmt& let) { return te::reads(let->value, of[0]->buffer); };
    return of.size() == kSharers && are_stored_together(of) && std::ranges::none_of(lets, reads);
  };
  if (!std::ranges::all_of(stores, is_whole)) return false;
  const std::set<std::string> performed = names_.performed;
  nested("", [&] {
    for (const Stmt& let : lets) define(let);
    for (const std::vector<Stmt>& output : stores) store_together(output);
  });
  names_.performed = performed;
  return true;
}

void KernelEmitter::prepare(const Expr& e) {
  prepared_.clear();
  prepare_loads(e);
  prepared_.clear();
  prepare_pairs(e);
  for (const Expr& shared : shared_parts(e, names_)) bind(shared);
}

void KernelEmitter::prepare_pairs(const Expr& e) {
  if (names_.evaluated.contains(&*e) || !prepared_.insert(&*e).second) return;
  for (size_t i = 0; i < (e.op() == Op::kSelect ? 1 : e->args.size()); ++i) prepare_pairs(e.arg(i));
  const DataType type = e.type();
  if (e.op() != Op::kCast || !type.is_half() || type.lanes() % 2 != 0) return;
  const Expr& x = e.arg(0);
  const bool operation = x.op() == Op::kAdd || x.op() == Op::kMax;
  const auto pair_of = [&](const Expr& y) -> std::string {
    if (y.op() == Op::kCast && y.arg(0).type() == type) return fmt::format("tw_pair_at({}, l)", bind(y.arg(0)));
    return y.op() == Op::kBroadcast && is_zero(y) ? "0u" : "";
  };
  const std::string a = operation ? pair_of(x.arg(0)) : "", b = operation ? pair_of(x.arg(1)) : "";
  const std::string each = to_string(type.element());
  const std::string pair = a.empty() || b.empty()
                               ? fmt::format("tw_round_{0}({1}.v[l], {1}.v[l + 1])", each, bind(x))
                               : fmt::format("tw_{}_{}({}, {})", x.op() == Op::kAdd ? "add" : "max", each, a, b);
  const std::string name = names_.evaluated[&*e] = fresh();
  line("const {} {} = tw_pairs<{}>([&](int l) {{ return {}; }});", cuda_type(type), name, type.lanes(), pair);
}

// Whether no variable decides it.
bool KernelEmitter::is_constant_in_kernel(const Expr& e) {
  bool varies = false;
  visit(e, [&](const Expr& x) { varies = varies || x.is_var(); });
  return !varies;
}

// Whether all that is loaded lies inside of its tensor, whatever is chosen.
bool KernelEmitter::loads_exist(const Expr& e) const {
  bool exist = true;
  visit(e, [&](const Expr& x) {
    if (x.op() != Op::kLoad) return;
    const auto buffer = std::ranges::find(kernel_.params, x->name, &loop::Buffer::name);
    exist = exist && buffer != kernel_.params.end();
    for (size_t d = 0; exist && d < x->args.size(); ++d) {
      const Interval range = names_.ranges.bounds(x->args[d]);
      exist = range.lo >= 0 && range.hi < buffer->shape[d];
    }
  });
  return exist;
}

void KernelEmitter::prepare_loads(const Expr& e) {
  if (names_.evaluated.contains(&*e) || !prepared_.insert(&*e).second) return;
  // What all threads choose alike is loaded either way where it exists: in a branch it came lane by lane.
  if (e.op() == Op::kSelect && !(is_constant_in_kernel(e.arg(0)) && loads_exist(e))) {
    prepare_loads(e.arg(0));
    return prepare_load(e);
  }
  for (const Expr& arg : e->args) prepare_loads(arg);
  if (e.op() == Op::kLoad) return prepare_load(e);
  if (is_lane_reduction(e.op())) prepare_reduction(e);
}

std::string KernelEmitter::bind(const Expr& e) {
  if (const auto known = names_.evaluated.find(&*e); known != names_.evaluated.end()) return known->second;
  for (const Expr& part : shared_parts(e, names_)) bind(part);
  const std::string name = fresh(), type = cuda_type(e.type());
  if (e.type().is_vector()) {
    line("{} {};", type, name);
    lanes(e.type().lanes(), fmt::format("{}.v[l] = {};", name, cuda_expr(e, names_, "l")));
  } else {
    line("const {} {} = {};", type, name, cuda_expr(e, names_));
  }
  return names_.evaluated[&*e] = name;
}

bool KernelEmitter::is_read_only(const std::string& buffer) const { return codegen::is_read_only(kernel_, buffer); }

void KernelEmitter::prepare_load(const Expr& e) {
  const MaybeLoad from = maybe_load(e);
  if (!from.load || !e.type().is_vector()) return;
  const std::string whole = cuda_vector(from.load->name, from.load.type(), from.load->args, names_);
  if (whole.empty()) return;
  const std::string name = fresh(), type = cuda_type(e.type());
  if (from.condition && is_read_only(from.load->name)) {
    line("const {} {} = tw_load_if({}, {}, {});", type, name, cuda_expr(from.condition, names_), whole,
         cuda_expr(from.otherwise, names_));
  } else if (from.condition) {
    line("{} {};", type, name);
    lanes(e.type().lanes(), fmt::format("{}.v[l] = {};", name, cuda_expr(from.otherwise, names_)));
    line("if ({}) {} = {};", cuda_expr(from.condition, names_), name, whole);
  } else {
    line("const {} {} = {};", type, name, whole);
  }
  names_.evaluated[&*e] = name;
}

void KernelEmitter::prepare_reduction(const Expr& e) {
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

std::string KernelEmitter::combined(Op op, DataType type, const std::string& a, const std::string& b) {
  CudaNames two;
  two.variables = {{"a", a}, {"b", b}};
  return cuda_expr(binary(op, var("a", type), var("b", type)), two);
}

}  // namespace tw::codegen
