/* The C interface of refitting (libtilewright): a compiled model with other weights. tilewright/compiler.h has the same
 * for C++, and says what weights are and which are refused.
 *
 * Functions return 0, or the exit code of the command line for the failure: 2 for wrong weights, 3 for weights that
 * want other code, 5 for a damaged artefact, 6 for a full disk or memory. `message` (NULL: nowhere) then receives up to
 * `message_capacity` bytes of text with its end. They may be called from any thread. No exception leaves them. */
#ifndef TILEWRIGHT_REFIT_H_
#define TILEWRIGHT_REFIT_H_

#include <dlpack/dlpack.h>
#include <stddef.h>

#if !defined(TILEWRIGHT_API)
#if defined(__GNUC__)
#define TILEWRIGHT_API __attribute__((visibility("default")))
#else
#define TILEWRIGHT_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TilewrightBytes {
  const void* data;
  size_t size;
} TilewrightBytes;

/* A tensor under the name of an initializer of the model: in CPU memory, row-major and compact. */
typedef struct TilewrightWeight {
  const char* name;
  DLTensor tensor;
} TilewrightWeight;

/* Takes the bytes of the new artefact, which live during the call only; returns 0 when it has them. */
typedef struct TilewrightSink {
  int (*write)(void* user, const void* bytes, size_t size);
  void* user;
} TilewrightSink;

/* From the files `artefact` and `weights` (.safetensors or .onnx) to the file `output`, which is the new one afterwards
 * or, after a failure, what was there before. */
TILEWRIGHT_API int tilewright_refit_file(const char* artefact, const char* weights, const char* output, char* message,
                                         size_t message_capacity);

/* The same in memory. */
TILEWRIGHT_API int tilewright_refit(const TilewrightBytes* artefact, const TilewrightWeight* weights, size_t count,
                                    const TilewrightSink* sink, char* message, size_t message_capacity);

#ifdef __cplusplus
}
#endif
#endif /* TILEWRIGHT_REFIT_H_ */
