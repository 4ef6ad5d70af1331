// Convolutions and attention by NVIDIA's cuDNN, which is opened when the first artefact needs it: nothing of it is
// needed to build. Names and numbers are those of cudnn_graph.h, version 9. A problem is one graph of its operations,
// which an engine of the library computes; engines have settings, its knobs.
#pragma once
#include <deque>
#include <vector>

#include "runtime/device/cuda/library.h"

namespace tw::runtime::cuda {

/// Entry points; those of descriptors are its cudnnBackend.. functions.
struct Cudnn {
  size_t (*version)();                            // cudnnGetVersion
  const char* (*error_string)(int status);        // cudnnGetErrorString
  void (*last_error)(char* text, size_t bytes);   // cudnnGetLastErrorString
  int (*create)(void** handle);                   // cudnnCreate
  int (*destroy)(void* handle);                   // cudnnDestroy
  int (*set_stream)(void* handle, StreamHandle);  // cudnnSetStream
  int (*descriptor_create)(int type, void** descriptor);
  int (*descriptor_destroy)(void* descriptor);
  int (*set)(void* descriptor, int attribute, int type, int64_t count, const void* values);
  int (*get)(void* descriptor, int attribute, int type, int64_t room, int64_t* count, void* values);
  int (*finalize)(void* descriptor);
  int (*execute)(void* handle, void* plan, void* operands);

  /// Throws Error, kOutOfMemory or kDevice, with the library's own text for a status that is not success.
  void check(int status, const std::string& doing) const;
};

/// This machine's, opened at the first call. Throws Error(kDevice) without one.
const Cudnn& open_cudnn();

/// What a descriptor is made of; what `values` points to must outlive the making.
struct CudnnAttribute {
  int name, type;
  size_t count;
  const void* values;
  /// `of` is the cudnnBackendAttributeType_t of T.
  template <typename T>
  CudnnAttribute(int key, int of, const T& value) : name(key), type(of), count(1), values(&value) {}
  template <typename T>
  CudnnAttribute(int key, int of, const std::vector<T>& list)
      : name(key), type(of), count(list.size()), values(list.data()) {}
};

/// A descriptor of the library.
class CudnnDescriptor {
 public:
  /// An empty one, which the library fills in.
  CudnnDescriptor(const Cudnn& library, int kind);
  /// A finished one; `doing` is for messages.
  CudnnDescriptor(const Cudnn& library, int kind, const std::string& doing,
                  const std::vector<CudnnAttribute>& attributes);
  void* get() const { return object_.get(); }
  /// Up to `room` values; how many there are.
  int64_t read(int attribute, int type, int64_t room, void* values) const;
  /// The one value of an attribute of integers.
  int64_t number(int attribute) const;
  /// The descriptors of a kind that the attribute holds, at most `max`.
  std::vector<CudnnDescriptor> read_list(int attribute, int kind, int64_t max) const;

 private:
  const Cudnn* library_;
  LibraryObject object_;
};

/// A problem by one engine.
class CudnnCall : public Call {
 public:
  /// A handle of the library: one for each stream.
  static LibraryObject start(const Cudnn& library);

  /// Throws Error(kDevice) where the engine does not compute the problem.
  CudnnCall(const Cudnn& library, void* handle, const format::LibraryCall& call);

  void run(std::span<const DevicePtr> operands, DevicePtr workspace, StreamHandle stream) const override;
  size_t workspace_bytes() const override { return workspace_bytes_; }

 private:
  const Cudnn& library_;
  void* handle_;
  format::ProblemDescriptor problem_;
  std::deque<CudnnDescriptor> parts_;  // the last one is the plan
  size_t workspace_bytes_ = 0;
};

/// The calls by which the library's heuristics would compute a problem, best first, at most `max`: engines that give
/// the same result each time, with sums in f32. Its engines of last resort, which take up to a minute to compile, are
/// not asked for. The GPU is current.
std::vector<format::LibraryCall> cudnn_offers(const Cudnn& library, void* handle,
                                              const format::ProblemDescriptor& problem, size_t max);

}  // namespace tw::runtime::cuda
