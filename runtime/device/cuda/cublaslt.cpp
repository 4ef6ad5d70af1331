#include "runtime/device/cuda/cublaslt.h"

#include <algorithm>
#include <iterator>

#include "runtime/format/error.h"

namespace tw::runtime::cuda {
namespace {

using format::Activation;
using format::DataType;
using format::ErrorCode;
using format::Operand;

constexpr int kCompute32F = 68, kReal32F = 0, kReal16F = 2, kReal16BF = 14, kTransposed = 1, kNoMemory = 3;
constexpr int kDescTransA = 3, kDescTransB = 4, kDescEpilogue = 7, kDescBias = 8;
constexpr int kLayoutBatch = 5, kLayoutMatrix = 6;
constexpr int kPreferenceWorkspace = 1, kPreferenceAlignments[] = {5, 6, 7, 8};
constexpr int kEpilogueNone = 1, kEpilogueRelu = 2, kEpilogueBias = 4, kEpilogueGelu = 32;
constexpr size_t kMaxWorkspace = size_t{32} << 20;  // what NVIDIA recommends for Hopper
constexpr uint32_t kAlignment = 16;                 // of a caller's tensors, in bytes
constexpr int kConfigCluster = 8;
constexpr uint16_t kSmallClusters[] = {0, 2, 3, 4, 5, 6, 8, 17, 32};  // up to four tiles; 0: none, or not said
constexpr size_t kListed = 32;                                        // algorithms to choose the safe ones from

void check(int status, const char* doing) {
  const ErrorCode code = status == kNoMemory ? ErrorCode::kOutOfMemory : ErrorCode::kDevice;
  if (status != 0) format::fail(code, "cuBLASLt cannot ", doing, " (status ", status, ")");
}

template <typename T>
void set(Cublaslt::Attribute function, void* object, int attribute, const T& value) {
  check(function(object, attribute, &value, sizeof(value)), "take a property of a product");
}

int type_of(DataType type) {
  return type == DataType::kF16 ? kReal16F : type == DataType::kBF16 ? kReal16BF : kReal32F;
}

template <typename Create>
LibraryObject make(int (*destroy)(void*), const Create& create) {
  void* object = nullptr;
  check(create(&object), "start");
  return {object, destroy};
}

}  // namespace

LibraryObject MatmulCall::start(const Cublaslt& library) { return make(library.destroy, library.create); }

MatmulCall::MatmulCall(const Cublaslt& library, void* handle, const format::LibraryCall& call)
    : library_(library),
      problem_(call.problem),
      handle_(handle),
      desc_(make(library.desc_destroy, [&](void** desc) { return library.desc_create(desc, kCompute32F, kReal32F); })),
      a_(layout_of(problem_.a, problem_.m, problem_.k)),
      b_(layout_of(problem_.b, problem_.k, problem_.n)),
      out_(layout_of(problem_.out, problem_.m, problem_.n)) {
  describe();
  choose(call.algorithm);
}

// The library's matrices lie column by column. So it gets all of them transposed, and computes out^T = b^T a^T.
LibraryObject MatmulCall::layout_of(const Operand& o, int64_t rows, int64_t columns) const {
  if (o.transposed) std::swap(rows, columns);
  LibraryObject layout = make(library_.layout_destroy, [&](void** made) {
    return library_.layout_create(made, type_of(o.dtype), static_cast<uint64_t>(columns), static_cast<uint64_t>(rows),
                                  o.line);
  });
  if (problem_.batch > 1) set(library_.layout_set, layout.get(), kLayoutBatch, static_cast<int32_t>(problem_.batch));
  if (problem_.batch > 1) set(library_.layout_set, layout.get(), kLayoutMatrix, o.matrix);
  return layout;
}

void MatmulCall::describe() {
  const Activation act = problem_.activation;
  int epilogue = act == Activation::kRelu ? kEpilogueRelu : act == Activation::kGeluTanh ? kEpilogueGelu : 0;
  if (!problem_.bias.name.empty()) {
    epilogue |= kEpilogueBias;
    set(library_.desc_set, desc_.get(), kDescBias, DevicePtr{kAlignment});  // the choice goes by its alignment
  }
  set(library_.desc_set, desc_.get(), kDescEpilogue, epilogue == 0 ? kEpilogueNone : epilogue);
  if (problem_.b.transposed) set(library_.desc_set, desc_.get(), kDescTransA, kTransposed);
  if (problem_.a.transposed) set(library_.desc_set, desc_.get(), kDescTransB, kTransposed);
}

void MatmulCall::choose(int64_t algorithm) {
  const LibraryObject preference = make(library_.preference_destroy, library_.preference_create);
  set(library_.preference_set, preference.get(), kPreferenceWorkspace, kMaxWorkspace);
  for (const int attribute : kPreferenceAlignments)
    set(library_.preference_set, preference.get(), attribute, kAlignment);
  std::vector<MatmulChoice> choices(std::max(static_cast<size_t>(algorithm) + 1, adds() ? kListed : 0));
  int found = 0;
  library_.choose(handle_, desc_.get(), b_.get(), a_.get(), out_.get(), out_.get(), preference.get(),
                  static_cast<int>(choices.size()), choices.data(), &found);
  choices.resize(static_cast<size_t>(found));
  std::erase_if(choices, [&](const MatmulChoice& choice) { return !is_safe(choice); });
  if (static_cast<int64_t>(choices.size()) > algorithm) choice_ = choices[static_cast<size_t>(algorithm)];
  if (static_cast<int64_t>(choices.size()) <= algorithm || choice_.state != 0)
    format::fail(ErrorCode::kDevice, "cuBLASLt ", library_.version(), " offers ", choices.size(), " algorithms for ",
                 to_string(problem_), ", not number ", algorithm);
}

// Kernels of cuBLASLt 13.1 whose tiles come in clusters of eight and add a matrix end with "unspecified launch failure"
// once in some 200,000 launches while processes take turns on an H100 (docs/internals/adr/0018).
bool MatmulCall::is_safe(const MatmulChoice& choice) const {
  if (!adds()) return true;
  uint16_t cluster = 0;
  size_t written = 0;
  check(library_.config_get(choice.algorithm.data(), kConfigCluster, &cluster, sizeof(cluster), &written),
        "say how an algorithm is configured");
  return std::ranges::find(kSmallClusters, cluster) != std::end(kSmallClusters);
}

void MatmulCall::run(std::span<const DevicePtr> operands, DevicePtr workspace, StreamHandle stream) const {
  const float one = 1, zero = 0;
  const bool has_bias = !problem_.bias.name.empty();
  if (has_bias) set(library_.desc_set, desc_.get(), kDescBias, operands[2]);
  const DevicePtr out = operands.back(), added = adds() ? operands[has_bias ? 3 : 2] : out;
  check(library_.matmul(handle_, desc_.get(), &one, operands[1], b_.get(), operands[0], a_.get(), adds() ? &one : &zero,
                        added, out_.get(), out, out_.get(), choice_.algorithm.data(), workspace,
                        choice_.workspace_bytes, stream),
        "multiply");
}

const Cublaslt& open_cublaslt() {
  static const Cublaslt library = [] {
    const SharedLibrary from("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"}, "install cuBLAS");
    Cublaslt l{};
    from.resolve("cublasLtGetVersion", l.version);
    from.resolve("cublasLtCreate", l.create);
    from.resolve("cublasLtDestroy", l.destroy);
    from.resolve("cublasLtMatmulDescCreate", l.desc_create);
    from.resolve("cublasLtMatmulDescSetAttribute", l.desc_set);
    from.resolve("cublasLtMatmulDescDestroy", l.desc_destroy);
    from.resolve("cublasLtMatrixLayoutCreate", l.layout_create);
    from.resolve("cublasLtMatrixLayoutSetAttribute", l.layout_set);
    from.resolve("cublasLtMatrixLayoutDestroy", l.layout_destroy);
    from.resolve("cublasLtMatmulPreferenceCreate", l.preference_create);
    from.resolve("cublasLtMatmulPreferenceSetAttribute", l.preference_set);
    from.resolve("cublasLtMatmulPreferenceDestroy", l.preference_destroy);
    from.resolve("cublasLtMatmulAlgoGetHeuristic", l.choose);
    from.resolve("cublasLtMatmulAlgoConfigGetAttribute", l.config_get);
    from.resolve("cublasLtMatmul", l.matmul);
    return l;
  }();
  return library;
}

}  // namespace tw::runtime::cuda
