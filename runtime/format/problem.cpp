#include "runtime/format/problem.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "runtime/format/error.h"

namespace tw::format {
namespace {

constexpr int64_t kMax = int64_t{1} << 46;  // elements of a tensor

// Members with their keys, in the order of the text.
template <typename T>
using Row = std::pair<const char*, T ProblemDescriptor::*>;
using P = ProblemDescriptor;
constexpr Row<int64_t> kNumbers[] = {{"batch", &P::batch}, {"m", &P::m},           {"n", &P::n},
                                     {"k", &P::k},         {"groups", &P::groups}, {"keys", &P::keys}};
constexpr Row<std::vector<int64_t>> kLists[] = {{"spatial", &P::spatial}, {"window", &P::window},
                                                {"strides", &P::strides}, {"dilations", &P::dilations},
                                                {"pads", &P::pads},       {"pads_end", &P::pads_end}};
constexpr Row<Operand> kOperands[] = {{"a", &P::a},           {"b", &P::b},
                                      {"bias", &P::bias},     {"residual", &P::residual},
                                      {"values", &P::values}, {"late_residual", &P::late_residual},
                                      {"out", &P::out}};
constexpr std::string_view kKinds[] = {"gemm", "convolution", "attention"};

struct ActivationRow {
  std::string_view name;
  size_t parameters = 0;
};
constexpr ActivationRow kActivations[] = {{"none"},      {"relu"},       {"clip", 2},  {"leaky_relu", 1},
                                          {"sigmoid"},   {"tanh"},       {"silu"},     {"gelu"},
                                          {"gelu_tanh"}, {"hard_swish"}, {"softplus"}, {"softmax", 1}};

constexpr Require require{"problem: "};

template <typename T>
T read_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size(), "'", text, "' is no number");
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t from = 0; from <= text.size();) {
    const size_t end = std::min(text.find(separator, from), text.size());
    parts.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return parts;
}

Operand read_operand(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, ':');
  const auto dtype = parts.size() < 2 ? std::nullopt : parse_data_type(parts[1]);
  const bool right = parts.size() % 2 == 0 ? parts.size() <= 6 : parts.size() == 5 && parts[4] == "t";
  require(dtype && right && !parts[0].empty(), "'", text, "' is no operand");
  Operand o{std::string(parts[0]), *dtype};
  if (parts.size() == 2) return o;
  o.line = read_number<int64_t>(parts[2]);
  o.matrix = read_number<int64_t>(parts[3]);
  o.transposed = parts.size() == 5;
  if (parts.size() == 6) o.head = read_number<int64_t>(parts[4]), o.first = read_number<int64_t>(parts[5]);
  return o;
}

void check_extents(const ProblemDescriptor& p) {
  constexpr int64_t kMaxExtent = int64_t{1} << 30;
  const bool gemm = p.kind == ProblemDescriptor::Kind::kGemm,
             convolution = p.kind == ProblemDescriptor::Kind::kConvolution;
  const bool attention = !gemm && !convolution;
  const auto check = [&](const char* key, int64_t value, int64_t min) {
    require(value >= min && value <= kMaxExtent, key, " of ", value);
  };
  for (const auto& [key, number] : kNumbers) {
    const bool none =
        (number == &P::groups && gemm) || (number == &P::m && convolution) || (number == &P::keys && !attention);
    none ? require(p.*number == 0, "it has no ", key) : check(key, p.*number, 1);
  }
  require(!convolution || (p.k % p.groups == 0 && p.n % p.groups == 0), "wrong groups");
  require(convolution ? !p.spatial.empty() && p.spatial.size() <= 3 : p.spatial.empty(), "wrong dimensions");
  for (const auto& [key, list] : kLists) {
    require((p.*list).size() == p.spatial.size(), "other ", key);
    for (const int64_t v : p.*list) check(key, v, list == &P::pads || list == &P::pads_end ? 0 : 1);
  }
  for (const int64_t extent : p.out_spatial()) check("a result", extent, 1);
}

void check_operands(const ProblemDescriptor& p) {
  const bool attention = p.kind == ProblemDescriptor::Kind::kAttention;
  require(attention == (p.activation == Activation::kSoftmax), "softmax is attention");
  for (const auto& [key, operand] : kOperands) {
    const Operand& o = p.*operand;
    const bool of_all = &o == &p.a || &o == &p.b || &o == &p.out,
               strided = of_all && p.kind == ProblemDescriptor::Kind::kGemm;
    require(!(of_all || (attention && &o == &p.values)) || !o.name.empty(), "no operand ", key);
    require(o.name.empty() || of_all || &o == &p.residual || attention == (&o == &p.values), "an operand ", key);
    const int64_t columns = o.transposed ? (&o == &p.b ? p.k : p.m) : &o == &p.a ? p.k : p.n;
    const bool dense = o.head == 0 && o.first == 0 && (strided ? o.line >= columns : o.line == 0 && o.matrix == 0);
    require(attention ? !o.transposed : dense, "wrong strides of ", key);
    p.span(o);
  }
}

int64_t product(std::initializer_list<int64_t> first, const std::vector<int64_t>& rest = {}) {
  std::vector<int64_t> factors = first;
  factors.insert(factors.end(), rest.begin(), rest.end());
  int64_t all = 1;
  for (const int64_t f : factors)
    require(f >= 0 && !__builtin_mul_overflow(all, f, &all) && all <= kMax, "too large a tensor");
  return all;
}

bool is_half(DataType type) { return type == DataType::kF16 || type == DataType::kBF16; }

std::string why_cublaslt_declines(const LibraryCall& call) {
  constexpr int64_t kMaxAlgorithms = 100;
  const ProblemDescriptor& p = call.problem;
  if (p.kind != ProblemDescriptor::Kind::kGemm)
    return join("no product of matrices but ", kKinds[static_cast<size_t>(p.kind)]);
  if (call.algorithm >= kMaxAlgorithms || !call.knobs.empty()) return "its algorithms are the first hundred";
  const bool known =
      p.activation == Activation::kNone || p.activation == Activation::kRelu || p.activation == Activation::kGeluTanh;
  if (!known || !p.late_residual.name.empty()) return "it has no such activation, or adds nothing behind it";
  const DataType type = p.a.dtype;
  if (p.tf32) return "it rounds operands to tf32 as its version likes";
  if (!(is_half(type) || type == DataType::kF32) || p.b.dtype != type) return "operands of other types";
  if (p.out.dtype != type && p.out.dtype != DataType::kF32) return "results of another type than the operands";
  for (const Operand* added : {&p.bias, &p.residual}) {
    if (!added->name.empty() && added->dtype != p.out.dtype)
      return join(added->name, " is of another type than the result");
  }
  return "";
}

std::string why_cudnn_declines(const LibraryCall& call) {
  const ProblemDescriptor& p = call.problem;
  if (p.kind == ProblemDescriptor::Kind::kGemm) return "neither convolution nor attention but a product of matrices";
  for (const Operand* o : {&p.a, &p.b, &p.values, &p.out}) {
    if (p.kind != ProblemDescriptor::Kind::kAttention) break;
    const int64_t steps[] = {p.k, p.n, o->line, o->matrix, o->head, o->first, p.residual.first};
    const bool aligned = std::ranges::all_of(steps, [](int64_t step) { return step % 8 == 0; });
    const bool shared = o->line == 0 || (o->matrix == 0 && p.batch > 1) || (o->head == 0 && p.groups > 1);
    if (!aligned || shared || o->dtype != p.a.dtype)
      return join(o->name, " is of another type, shared by heads, or does not lie by 8 elements");
  }
  const bool shifted = p.activation == Activation::kClip && p.parameters[0] != 0;
  if (p.activation == Activation::kHardSwish || shifted) return "it has no such activation";
  if (!is_half(p.a.dtype) || p.b.dtype != p.a.dtype) return "operands of other types than f16 or bf16";
  for (const Operand* other : p.operands()) {
    if (!is_half(other->dtype) && other->dtype != DataType::kF32) return join(other->name, " is of another type");
  }
  return "";
}

}  // namespace

std::vector<int64_t> ProblemDescriptor::out_spatial() const {
  std::vector<int64_t> extents;
  for (size_t d = 0; d < spatial.size(); ++d) {
    const int64_t room = spatial[d] + pads[d] + pads_end[d] - dilations[d] * (window[d] - 1) - 1;
    extents.push_back(room < 0 ? 0 : room / strides[d] + 1);
  }
  return extents;
}

std::vector<const Operand*> ProblemDescriptor::operands() const {
  std::vector<const Operand*> all;
  for (const auto& [key, operand] : kOperands) {
    if (!(this->*operand).name.empty()) all.push_back(&(this->*operand));
  }
  return all;
}

int64_t ProblemDescriptor::span(const Operand& o) const {
  if (&o == &bias) return n;
  const bool left = &o == &a, right = &o == &b;
  if (kind == Kind::kAttention) {
    const int64_t lines = right || &o == &values ? keys : m, rest = &o == &residual ? keys : left || right ? k : n;
    return product({batch - 1, o.matrix}) + product({groups - 1, o.head}) + product({lines - 1, o.line}) +
           product({o.first}) + rest;
  }
  if (kind == Kind::kConvolution)
    return left    ? product({batch, k}, spatial)
           : right ? product({n, k / groups}, window)
                   : product({batch, n}, out_spatial());
  const Operand& stored = left || right ? o : out;  // residuals are as `out`
  const int64_t rows = right ? k : m, columns = left ? k : n;
  return product({batch - 1, stored.matrix}) + product({(stored.transposed ? columns : rows) - 1, stored.line}) +
         (stored.transposed ? rows : columns);
}

std::string to_string(const ProblemDescriptor& p) {
  std::string text(kKinds[static_cast<size_t>(p.kind)]);
  for (const auto& [key, number] : kNumbers) {
    if (p.*number != 0) text += join(" ", key, "=", p.*number);
  }
  for (const auto& [key, list] : kLists) {
    for (size_t i = 0; i < (p.*list).size(); ++i)
      text += i == 0 ? join(" ", key, "=", (p.*list)[i]) : join(",", (p.*list)[i]);
  }
  for (const auto& [key, operand] : kOperands) {
    const Operand& o = p.*operand;
    if (o.name.empty()) continue;
    text += join(" ", key, "=", o.name, ":", name_of(o.dtype));
    const bool attention = p.kind == ProblemDescriptor::Kind::kAttention;
    if (o.line != 0 || attention) text += join(":", o.line, ":", o.matrix, o.transposed ? ":t" : "");
    if (attention) text += join(":", o.head, ":", o.first);
  }
  if (p.tf32) text += " math=tf32";
  if (p.causal) text += " mask=causal";
  if (p.activation == Activation::kNone) return text;
  text += join(" act=", kActivations[static_cast<size_t>(p.activation)].name);
  for (const double parameter : p.parameters) {
    std::array<char, 32> digits{};
    text += join(":", std::string_view(digits.data(), std::to_chars(digits.begin(), digits.end(), parameter).ptr));
  }
  return text;
}

ProblemDescriptor parse_problem(std::string_view text) {
  const std::vector<std::string_view> words = split(text, ' ');
  const auto* kind = std::ranges::find(kKinds, words[0]);
  require(kind != std::end(kKinds), "'", words[0], "' is no kind of it");
  ProblemDescriptor p;
  p.kind = static_cast<ProblemDescriptor::Kind>(kind - kKinds);
  std::map<std::string_view, std::string_view> given;
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t at = std::min(words[i].find('='), words[i].size());
    const std::string_view value = words[i].substr(std::min(at + 1, words[i].size()));
    require(!value.empty() && given.emplace(words[i].substr(0, at), value).second, "'", words[i], "' is no word of it");
  }
  // The value of a key, which is then gone; empty: there is none.
  const auto take = [&](const char* key) {
    const auto node = given.extract(key);
    return node ? node.mapped() : std::string_view();
  };
  for (const auto& [key, number] : kNumbers) {
    if (const auto value = take(key); !value.empty()) p.*number = read_number<int64_t>(value);
  }
  for (const auto& [key, list] : kLists) {
    const auto value = take(key);
    if (value.empty()) continue;
    for (const std::string_view part : split(value, ',')) (p.*list).push_back(read_number<int64_t>(part));
  }
  for (const auto& [key, operand] : kOperands) {
    if (const auto value = take(key); !value.empty()) p.*operand = read_operand(value);
  }
  if (const auto value = take("math"); !value.empty()) {
    require(value == "tf32" && p.a.dtype == DataType::kF32 && p.b.dtype == DataType::kF32, "math of ", value);
    p.tf32 = true;
  }
  if (const auto value = take("mask"); !value.empty()) {
    require(value == "causal" && p.kind == ProblemDescriptor::Kind::kAttention, "mask ", value);
    p.causal = true;
  }
  if (const auto value = take("act"); !value.empty()) {
    const std::vector<std::string_view> parts = split(value, ':');
    const auto* row = std::find_if(std::begin(kActivations), std::end(kActivations),
                                   [&](const ActivationRow& r) { return r.name == parts[0]; });
    require(row != std::end(kActivations) && parts.size() == row->parameters + 1, "activation '", value, "'");
    p.activation = static_cast<Activation>(row - std::begin(kActivations));
    for (size_t i = 1; i < parts.size(); ++i) p.parameters.push_back(read_number<double>(parts[i]));
  }
  require(given.empty(), "unknown words");
  check_extents(p);
  check_operands(p);
  require(to_string(p) == text, "another spelling");
  return p;
}

std::string to_string(const LibraryCall& call) {
  std::string way = join(call.algorithm);
  for (const auto& [type, value] : call.knobs) way += join(",", type, "=", value);
  return join(call.library, " ", call.version, " ", way, " ", to_string(call.problem));
}

LibraryCall parse_library_call(std::string_view text) {
  const std::vector<std::string_view> words = split(text, ' ');
  require(words.size() > 3, "'", text, "' calls no library");
  const std::vector<std::string_view> way = split(words[2], ',');
  LibraryCall call{std::string(words[0]), read_number<int64_t>(words[1]), read_number<int64_t>(way[0]),
                   parse_problem(text.substr(static_cast<size_t>(words[3].data() - text.data())))};
  for (size_t i = 1; i < way.size(); ++i) {
    const std::vector<std::string_view> knob = split(way[i], '=');
    require(knob.size() == 2, "'", way[i], "' is no setting");
    call.knobs.emplace_back(read_number<int64_t>(knob[0]), read_number<int64_t>(knob[1]));
  }
  require(call.version >= 0 && call.algorithm >= 0 && to_string(call) == text, "'", text, "' calls no library");
  return call;
}

std::string why_declined(const LibraryCall& call) {
  if (call.library == "cublaslt") return why_cublaslt_declines(call);
  if (call.library == "cudnn") return why_cudnn_declines(call);
  return "an unknown library";
}

}  // namespace tw::format
