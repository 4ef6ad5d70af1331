/* The C interface of the Tilewright runtime (libtilewright_rt): loads a compiled artefact (.tw), runs it on DLPack
 * tensors. One symbol is exported, tw_get_api; it yields an append-only table of functions.
 *
 * Rules that hold for the whole table:
 *  - Functions that can fail return TwStatus*: NULL means success, anything else is freed with status_free.
 *  - A model is immutable and may be used from any number of threads. A context belongs to one thread at a time; make
 *    one context per thread. A context keeps its model alive: the two may be freed in any order.
 *  - After the first run of an entry, run allocates nothing.
 *  - Strings and arrays reached through a model live as long as the model.
 *  - Structures that callers fill carry struct_size = sizeof(the structure), so that they may grow. */
#ifndef TILEWRIGHT_RUNTIME_H_
#define TILEWRIGHT_RUNTIME_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TW_API __attribute__((visibility("default")))
#else
#define TW_API
#endif

/* The table version that this header describes. */
#define TW_API_VERSION 9u

typedef enum TwStatusCode {
  TW_OK = 0,
  TW_ERROR_INTERNAL = 1,         /* a defect of the runtime */
  TW_ERROR_INVALID_ARGUMENT = 2, /* wrong tensor, dtype, rank, shape, strides, device, path or index */
  TW_ERROR_NO_SUCH_SHAPE =
      3,                    /* well-formed inputs of a shape that was not compiled; the message names those that were */
  TW_ERROR_INPUT_VALUE = 4, /* a kernel refused a value, for example an index out of range; the outputs are invalid */
  TW_ERROR_DAMAGED = 5,     /* not an artefact, truncated, altered, or inconsistent */
  TW_ERROR_INCOMPATIBLE = 6, /* another format version, CPU features or architecture than this machine has */
  TW_ERROR_DEVICE = 7,       /* no such device, or the device failed */
  TW_ERROR_OUT_OF_MEMORY = 8,
  TW_ERROR_DISK_FULL = 9,
  TW_ERROR_IO = 10 /* the operating system failed to read or write */
} TwStatusCode;

typedef enum TwLogLevel { TW_LOG_DEBUG = 0, TW_LOG_INFO = 1, TW_LOG_WARNING = 2 } TwLogLevel;

typedef struct TwStatus TwStatus;
typedef struct TwModel TwModel;
typedef struct TwContext TwContext;
typedef struct TwState TwState;

/* What both model_load_* and context_create accept; a NULL pointer or zeros mean the defaults. */
typedef struct TwOptions {
  size_t struct_size;
  int32_t threads; /* context: 0 = every CPU of the affinity mask that the CPU quota pays for;
                      more than the mask has are not used */
  int32_t device;  /* model: ordinal of the GPU for CUDA artefacts */
  int32_t profile; /* context: nonzero = time every step of every run (slower: steps wait for each other; on a GPU
                    * they are launched one by one instead of as one graph) */
  /* Context: memory of the arena and the scratch areas. allocate returns NULL when it cannot; both or neither are set.
   * The artefact's own bytes (weights, code) are mapped by the runtime, read-only. */
  void* (*allocate)(void* user, size_t bytes, size_t alignment);
  void (*deallocate)(void* user, void* memory, size_t bytes);
  void* allocator_user;
  /* Model and context: may be called from the calling thread only. */
  void (*log)(void* user, TwLogLevel level, const char* message);
  void* log_user;
  /* Model: of an artefact for several CPU levels the one to use, for example "x86-64-v3". NULL or "": the first in the
   * artefact's order, the widest one, that this machine runs. */
  const char* level;
  /* Since version 4. Context: the state that its runs read and change, as other contexts of it may, too; NULL: one of
   * its own. */
  TwState* state;
  /* Since version 8. Model: whose artefacts are loaded, a list of public Ed25519 keys with ':' between them, each a PEM
   * file or 64 hexadecimal digits. With some, an artefact that none of them signed (tilewright sign) is refused with
   * TW_ERROR_DAMAGED before any of its code is mapped. "": everybody's; NULL: those of $TILEWRIGHT_TRUSTED_KEYS. */
  const char* trusted_keys;
} TwOptions;

/* An input or output of one entry; of one that takes several shapes (dim_range) the largest. */
typedef struct TwTensorInfo {
  size_t struct_size;
  const char* name;
  DLDataType dtype;
  int32_t ndim;
  const int64_t* shape; /* ndim extents, in elements */
} TwTensorInfo;

/* How large a dimension of an input of one entry may be. */
typedef struct TwExtentInfo {
  size_t struct_size;
  const char* name; /* dimensions of one name are, in a run, of one size times their own `times`; "" where the size is
                     * always the same */
  int64_t least;    /* from least * times to most * times, both at least 1 where there is a name */
  int64_t most; /* where larger inputs run in parts any: (2^63 - 1) / times; find_entry says which entry takes them */
  int64_t times;
} TwExtentInfo;

/* What a model does: functions have inputs and outputs of their own, and share the model's states and weights. */
typedef struct TwFunctionInfo {
  size_t struct_size;
  const char* name;    /* "step", "grads", "eval" of a model that is trained; "" where a model has but one */
  int32_t first_entry; /* its entries, one for each compiled combination of its inputs' shapes, follow each other */
  int32_t entry_count;
  int32_t input_count;
  int32_t output_count;
  int32_t changes_state; /* nonzero: a run leaves another state than it finds; others may run at the same time */
} TwFunctionInfo;

/* A buffer of one entry: a region that steps read and write. */
typedef struct TwBufferInfo {
  size_t struct_size;
  const char* name; /* the value it holds; may be empty */
  uint64_t bytes;
  int32_t readable; /* nonzero: read_buffer can copy it after a run (arena and weights) */
} TwBufferInfo;

typedef struct TwStepTime {
  const char* name; /* label of the step: the ONNX nodes it computes */
  uint64_t ns;
} TwStepTime;

typedef struct TwApi {
  uint32_t version; /* version of this table; functions below `version` never change or move */
  size_t struct_size;

  const char* (*version_string)(void); /* of the library, for example "0.1.0" */

  /* Status objects. NULL is success: code TW_OK, message "", exit code 0. status_free(NULL) does nothing. */
  TwStatusCode (*status_code)(const TwStatus* status);
  const char* (*status_message)(const TwStatus* status);
  int (*status_exit_code)(const TwStatus* status); /* the exit code of the command line for this status */
  void (*status_free)(TwStatus* status);

  /* Loading verifies size, header, section table, all hashes, the manifest and every offset in it, then the machine;
   * only then is code mapped, never writable and executable at once. The bytes given to model_load_memory are copied.
   */
  TwStatus* (*model_load_file)(const char* path, const TwOptions* options, TwModel** model);
  TwStatus* (*model_load_memory)(const void* bytes, size_t size, const TwOptions* options, TwModel** model);
  void (*model_free)(TwModel* model);

  /* A model has one entry for each compiled combination of input shapes; names, dtypes and ranks agree between them.
   * A model of several functions (function_count, since version 7) has such entries of each. What is said here of
   * inputs and outputs without naming an entry, and what find_entry and run take, is of the first function. */
  int32_t (*entry_count)(const TwModel* model);
  const char* (*entry_name)(const TwModel* model, int32_t entry); /* NULL when there is no such entry */
  int32_t (*input_count)(const TwModel* model);
  int32_t (*output_count)(const TwModel* model);
  TwStatus* (*input_info)(const TwModel* model, int32_t entry, int32_t input, TwTensorInfo* info);
  TwStatus* (*output_info)(const TwModel* model, int32_t entry, int32_t output, TwTensorInfo* info);
  /* The entry compiled for the shapes of these inputs, or TW_ERROR_NO_SUCH_SHAPE. Only dtypes and shapes are read. */
  TwStatus* (*find_entry)(const TwModel* model, const DLTensor* inputs, int32_t input_count, int32_t* entry);

  TwStatus* (*context_create)(const TwModel* model, const TwOptions* options, TwContext** context);
  void (*context_free)(TwContext* context);
  int32_t (*context_threads)(const TwContext* context); /* the largest number of threads a run uses */

  /* Runs the entry that matches the inputs' shapes. Tensors: compact row-major, aligned to their element, in the memory
   * of a device that the model can use; outputs may overlap neither inputs nor each other. Results have the same bits
   * for every number of threads. A GPU begins when the work that its legacy default stream has so far is done; what
   * other streams do with the tensors must have ended. When run returns, nothing uses them any more, errors included.
   */
  TwStatus* (*run)(TwContext* context, const DLTensor* inputs, int32_t input_count, const DLTensor* outputs,
                   int32_t output_count);
  /* The same for an entry that the caller chose. */
  TwStatus* (*run_entry)(TwContext* context, int32_t entry, const DLTensor* inputs, const DLTensor* outputs);

  /* Times of the last run's steps: *count receives their number, steps the first `capacity` of them. Needs
   * options.profile. */
  TwStatus* (*last_profile)(const TwContext* context, TwStepTime* steps, size_t capacity, size_t* count);

  /* Buffers of the last run, for comparing intermediate values. read_buffer copies all of a readable buffer as it is
   * now: a region of the arena that a later step reused holds that step's values. */
  int32_t (*buffer_count)(const TwModel* model, int32_t entry);
  TwStatus* (*buffer_info)(const TwModel* model, int32_t entry, int32_t buffer, TwBufferInfo* info);
  TwStatus* (*read_buffer)(TwContext* context, int32_t buffer, void* destination, size_t bytes);

  /* Since version 2. What the model's code is for: "x86-64-v4", "sm_90a". Of several levels the one that was taken. */
  const char* (*model_target)(const TwModel* model);

  /* Since version 3. Like run_entry, but the entry runs `count` times in a row, at least once; times_ns[i] receives how
   * long the i-th of these runs took. On a GPU that is the time between two events on its stream, from tensors in its
   * memory to tensors in its memory: what lies on the host is copied there before all of them and back after the last.
   * On a CPU it is the time by its clock. */
  TwStatus* (*measure_entry)(TwContext* context, int32_t entry, const DLTensor* inputs, const DLTensor* outputs,
                             uint64_t* times_ns, size_t count);

  /* Since version 4: state, what a model keeps from one run to the next on its device (tilewright compile --state). The
   * inputs and outputs that it takes the place of are none of the model's. A new state has the initial values of the
   * artefact. A run that ends with an error leaves it as invalid as its outputs.
   *
   * A state may be used from any number of threads: calls wait for the runs of others that use it, and runs that change
   * it for each other. A state keeps its model alive, and a context its state: they may be freed in any order. Of the
   * options a state reads the allocator. */
  int32_t (*state_count)(const TwModel* model);
  TwStatus* (*state_info)(const TwModel* model, int32_t state, TwTensorInfo* info);
  TwStatus* (*state_create)(const TwModel* model, const TwOptions* options, TwState** state);
  void (*state_free)(TwState* state);
  /* The state that a context runs with, as one more handle, which state_free frees. */
  TwStatus* (*context_state)(const TwContext* context, TwState** state);
  /* Copies one of the values to or from a compact row-major tensor of its type and shape, in host memory or that of the
   * model's device, however the artefact stores it. */
  TwStatus* (*state_get)(TwState* state, int32_t index, const DLTensor* to);
  TwStatus* (*state_set)(TwState* state, int32_t index, const DLTensor* from);
  /* The initial values again. */
  TwStatus* (*state_reset)(TwState* state);
  /* All values to a .safetensors file, row-major, under their names, atomically; and from one that has all of them and
   * no others.
   * After an error the file, or the state, is as before. */
  TwStatus* (*state_save)(TwState* state, const char* path);
  TwStatus* (*state_load)(TwState* state, const char* path);

  /* Since version 5. Like run_entry, but on a GPU the run is put on `stream`, a CUstream or cudaStream_t of the model's
   * device (NULL: its legacy default stream): it begins when the work that the stream has so far is done, and the call
   * returns at once. Until the run's end, which the caller learns from the stream, the tensors stay as they are; the
   * array of DLTensors may go. Runs of a context follow each other, whatever their streams; context_free waits for the
   * last one.
   *
   * The call returns only when the run has ended where there is something to wait for: a tensor lies on the host, the
   * entry checks values (TW_ERROR_INPUT_VALUE) or the model keeps state, the context profiles. On a CPU it is
   * run_entry, and `stream` is not read. */
  TwStatus* (*run_async)(TwContext* context, int32_t entry, const DLTensor* inputs, const DLTensor* outputs,
                         void* stream);
  /* Since version 5. What the ONNX model says of itself, as a JSON object: "producer_name", "producer_version",
   * "domain", "description", "graph_name", "graph_description" (texts), "version" (a number) and "custom_metadata_map"
   * (texts by name). "{}" where the artefact does not know. */
  const char* (*model_metadata)(const TwModel* model);
  /* Since version 6. A JSON object for programs; "{}" for NULL and where there is nothing to say. Where shapes are at
   * fault (TW_ERROR_NO_SUCH_SHAPE, or one tensor of another shape or number of dimensions): "given", the shapes of the
   * tensors in question by name, and "compiled", a list with the same of every entry that they were compared with. */
  const char* (*status_details)(const TwStatus* status);

  /* Since version 7: functions (`tilewright train`). Numbers of functions begin with 0; there is at least one. Entries
   * are numbered through all functions: run_entry, run_async and measure_entry take those of any. find_function fails
   * with TW_ERROR_INVALID_ARGUMENT, which names the functions that are there; find_entry_of and run_function do what
   * find_entry and run do for the first function. A context runs all functions, on one state. */
  int32_t (*function_count)(const TwModel* model);
  TwStatus* (*function_info)(const TwModel* model, int32_t function, TwFunctionInfo* info);
  TwStatus* (*find_function)(const TwModel* model, const char* name, int32_t* function);
  TwStatus* (*find_entry_of)(const TwModel* model, int32_t function, const DLTensor* inputs, int32_t input_count,
                             int32_t* entry);
  TwStatus* (*run_function)(TwContext* context, int32_t function, const DLTensor* inputs, int32_t input_count,
                            const DLTensor* outputs, int32_t output_count);

  /* Since version 9: entries that take more than one shape (tilewright compile --dim seq=1..128). What input_info and
   * output_info say are their largest shapes. input_extent: how large a dimension of an input may be. output_shape:
   * what an output has for these inputs of an entry, of which only dtypes and shapes are read; `shape` receives as many
   * extents as the output has dimensions. */
  TwStatus* (*input_extent)(const TwModel* model, int32_t entry, int32_t input, int32_t dim, TwExtentInfo* info);
  TwStatus* (*output_shape)(const TwModel* model, int32_t entry, const DLTensor* inputs, int32_t output,
                            int64_t* shape);
} TwApi;

/* The table of at least this version, or NULL when the library is older. */
TW_API const TwApi* tw_get_api(uint32_t version);

#ifdef __cplusplus
}
#endif
#endif /* TILEWRIGHT_RUNTIME_H_ */
