// Products of matrices by NVIDIA's cuBLASLt, which is opened when the first artefact needs it: nothing of it is needed
// to build. Names, numbers and layouts are those of cublasLt.h, versions 12 and 13.
#pragma once
#include <array>

#include "runtime/device/cuda/library.h"

namespace tw::runtime::cuda {

/// cublasLtMatmulHeuristicResult_t
struct MatmulChoice {
  std::array<uint64_t, 8> algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  std::array<int, 4> reserved;
};
static_assert(sizeof(MatmulChoice) == 96, "the layout of cublasLt.h");

/// Entry points; those of a descriptor are its cublasLt..Create, ..SetAttribute and ..Destroy.
struct Cublaslt {
  using Attribute = int (*)(void* object, int attribute, const void* value, size_t bytes);
  size_t (*version)();                                      // cublasLtGetVersion
  int (*create)(void** handle);                             // cublasLtCreate
  int (*destroy)(void* handle);                             // cublasLtDestroy
  int (*desc_create)(void** desc, int compute, int scale);  // cublasLtMatmulDesc
  Attribute desc_set;
  int (*desc_destroy)(void* desc);
  int (*layout_create)(void** layout, int type, uint64_t rows, uint64_t columns, int64_t line);  // cublasLtMatrixLayout
  Attribute layout_set;
  int (*layout_destroy)(void* layout);
  int (*preference_create)(void** preference);  // cublasLtMatmulPreference
  Attribute preference_set;
  int (*preference_destroy)(void* preference);
  // Signature fixed by cublasLtMatmulAlgoGetHeuristic.
  int (*choose)(void* handle, void* desc, void* a, void* b, void* c, void* d, void* preference, int wanted,
                MatmulChoice* choices, int* found);
  // Signature fixed by cublasLtMatmulAlgoConfigGetAttribute.
  int (*config_get)(const void* algorithm, int attribute, void* value, size_t bytes, size_t* written);
  // Signature fixed by cublasLtMatmul.
  int (*matmul)(void* handle, void* desc, const void* alpha, DevicePtr a, void* a_layout, DevicePtr b, void* b_layout,
                const void* beta, DevicePtr c, void* c_layout, DevicePtr d, void* d_layout, const void* algorithm,
                DevicePtr workspace, size_t workspace_bytes, StreamHandle stream);
};

/// This machine's, opened at the first call. Throws Error(kDevice) without one.
const Cublaslt& open_cublaslt();

/// A product of matrices.
class MatmulCall : public Call {
 public:
  /// A handle of the library: one for each stream.
  static LibraryObject start(const Cublaslt& library);

  /// Throws Error(kDevice) where the library does not compute the problem, or offers no such algorithm. Algorithms have
  /// their numbers in its list of those that may share a GPU (is_safe).
  MatmulCall(const Cublaslt& library, void* handle, const format::LibraryCall& call);

  void run(std::span<const DevicePtr> operands, DevicePtr workspace, StreamHandle stream) const override;
  size_t workspace_bytes() const override { return choice_.workspace_bytes; }

 private:
  LibraryObject layout_of(const format::Operand& operand, int64_t rows, int64_t columns) const;
  void describe();
  bool adds() const { return !problem_.residual.name.empty(); }
  void choose(int64_t algorithm);
  bool is_safe(const MatmulChoice& choice) const;

  const Cublaslt& library_;
  format::ProblemDescriptor problem_;
  void* handle_;
  LibraryObject desc_, a_, b_, out_;
  MatmulChoice choice_{};
};

}  // namespace tw::runtime::cuda
