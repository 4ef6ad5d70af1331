/* The C interface of the Tilewright compiler (libtilewright): an ONNX model in, an artefact (.tw) out, which the
 * runtime (tilewright/runtime.h) runs, on this machine or another one. Programs call one function, tw_get_compiler_api;
 * it yields an append-only table of functions. tilewright/compiler.hpp is the same for C++. A second one,
 * tw_call_command, is the command as a function.
 *
 * Rules that hold for the whole table:
 *  - Functions that can fail return TwCompilerStatus*: NULL means success, anything else is freed with status_free. No
 *    exception leaves the library, and it never writes to stdout or stderr.
 *  - All functions may be called from any thread, at the same time too. An object that is changed or freed is used by
 *    one thread at a time; several compilations may read the same options.
 *  - Strings are UTF-8 and end in a zero. Those that are given are read during the call only. Those that are returned
 *    live as long as the object that they are of; without an object, as long as the library.
 *  - Structures carry struct_size = sizeof(the structure), which the caller sets, so that they may grow. Fields that
 *    the caller's structure does not have keep their defaults.
 *  - After an error, results are not changed: a handle keeps its value, and a file what it held before. */
#ifndef TILEWRIGHT_COMPILER_H_
#define TILEWRIGHT_COMPILER_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TW_API
#if defined(__GNUC__)
#define TW_API __attribute__((visibility("default")))
#else
#define TW_API
#endif
#endif

/* The table version that this header describes. */
#define TW_COMPILER_API_VERSION 1u

/* What went wrong. The values are the exit codes of the command `tilewright` for the same failure. */
typedef enum TwCompilerErrorKind {
  TW_COMPILER_OK = 0,
  TW_COMPILER_FAILURE = 1,   /* the operating system failed to read or write */
  TW_COMPILER_USAGE = 2,     /* an argument or option is wrong: an unknown target or pass, a plan of another model */
  TW_COMPILER_MODEL = 3,     /* the model is wrong, contradicts the options, or needs something that is not supported */
  TW_COMPILER_ARTEFACT = 5,  /* an artefact is damaged, or of another version */
  TW_COMPILER_EXHAUSTED = 6, /* disk or memory is full, or a limit of the options is reached */
  TW_COMPILER_INTERNAL = 70, /* a defect of Tilewright */
  TW_COMPILER_CANCELLED = 130 /* TwCompileCallbacks.cancel said so */
} TwCompilerErrorKind;

typedef struct TwCompilerStatus TwCompilerStatus;
typedef struct TwCompileOptions TwCompileOptions;
typedef struct TwCompilation TwCompilation;

/* A row of the table of options (docs/reference/options.md). */
typedef struct TwOptionInfo {
  size_t struct_size;
  const char* name;     /* as options_set takes it: "target" */
  const char* kind;     /* "flag", "integer", "number", "duration", "size", "text", "choice", "file" or "folder" */
  const char* choices;  /* of a choice: "strict|default|fast"; otherwise "" */
  const char* initial;  /* what holds when the option is not set, in words or as a value; "" where nothing is to say */
  const char* variable; /* of the environment, which is read where the option is not set; "" where there is none */
  const char* help;
  int32_t is_repeatable; /* nonzero: options_set adds one more value each time */
} TwOptionInfo;

/* What a compilation tells and asks. Functions that are NULL are not called. None may throw, jump out, or use the
 * options or the compilation that it is called for. */
typedef struct TwCompileCallbacks {
  size_t struct_size;
  void* user; /* passed to each of them */
  /* `done` of `total` steps of a phase are done. Phases in their order: "import", "transform", "measure" if something
   * is measured, "lower", "code", "assemble"; several models or targets repeat some of them; of a refit "import" and
   * "refit". `detail` is NULL or one line of text about the step, for example what a candidate took. From the calling
   * thread. */
  void (*progress)(void* user, const char* phase, int64_t done, int64_t total, const char* detail);
  /* Nonzero: measuring ends, and the compilation goes on with the best that is known so far. Asked now and then, from
   * any thread, several at the same time. */
  int32_t (*stop)(void* user);
  /* Nonzero: the call gives up with TW_COMPILER_CANCELLED, after the current import, pass, kernel or measurement;
   * no file is left behind. Asked like `stop`. */
  int32_t (*cancel)(void* user);
} TwCompileCallbacks;

/* A tensor under the name of an initializer of a model. In CPU memory, row-major and compact (strides NULL or such). */
typedef struct TwNamedTensor {
  const char* name;
  DLTensor tensor;
} TwNamedTensor;

typedef struct TwNamedCount {
  const char* name;
  int64_t count;
} TwNamedCount;

typedef struct TwPassTime {
  const char* phase; /* "graph", "loop" or "code" */
  const char* pass;
  int64_t ns;
} TwPassTime;

/* What compilation_report says most, for programs without a reader of JSON. */
typedef struct TwCompileSummary {
  size_t struct_size;
  const char* target;
  int64_t opset;
  int64_t groups;
  int64_t kernels;
  const TwNamedCount* families;
  size_t family_count;
  const TwPassTime* times;
  size_t time_count;
  const char* const* warnings;
  size_t warning_count;
  int32_t cached;
} TwCompileSummary;

typedef struct TwCompilerApi {
  uint32_t version; /* of this table; functions below `version` never change or move */
  size_t struct_size;

  const char* (*version_string)(void); /* of the library, for example "0.1.0" */

  /* Status objects. NULL is success: kind TW_COMPILER_OK, message "", details "{}". status_free(NULL) does nothing. */
  TwCompilerErrorKind (*status_kind)(const TwCompilerStatus* status);
  /* One or more sentences that name the node, the shapes or the option, and what to change. Options are named as
   * options_set takes them. */
  const char* (*status_message)(const TwCompilerStatus* status);
  /* A JSON object for programs. "type" is always there: "failure", "usage", "model", "unsupported" (of kind
   * TW_COMPILER_MODEL), "artefact", "exhausted", "internal" or "cancelled". "unsupported" has "operators": a list of
   * names ("Einsum", or "com.example::Foo" outside of the default domain), sorted, each once, empty where no operator
   * as such is at fault; and where they are known "items": a list of {"operator", "domain", "opset", "reason",
   * "nodes"}. "node" is the name of the node that an error is about, where there is one. Where a shape that was asked
   * for contradicts the model: "given", it by the input's name, and "declared", the model's own, where an extent may
   * also be the name of a dimension, or null. More keys may come. */
  const char* (*status_details)(const TwCompilerStatus* status);
  void (*status_free)(TwCompilerStatus* status);

  /* What compilers know: rows of the table of options, in the order of docs/reference/options.md, and the names that
   * the option "target" takes. option_info: TW_COMPILER_USAGE when there is no such row. target_name: NULL when there
   * is none. */
  size_t (*option_count)(void);
  TwCompilerStatus* (*option_info)(size_t index, TwOptionInfo* info);
  size_t (*target_count)(void);
  const char* (*target_name)(size_t index);

  /* Options: new ones hold the defaults. options_free(NULL) does nothing. */
  TwCompilerStatus* (*options_create)(TwCompileOptions** options);
  void (*options_free)(TwCompileOptions* options);
  /* Sets an option by its name, from text: ("precision", "strict"), ("dim", "batch=1,8"), ("budget", "60s"). A flag
   * takes "true" or "false". What is repeatable is given once more. TW_COMPILER_USAGE when there is no such option or
   * the text is malformed; the options are as before then. Contradictions between options are found by a compilation.
   * Tensors of "const" and "state" are no text: options_set_constant, options_set_state. */
  TwCompilerStatus* (*options_set)(TwCompileOptions* options, const char* name, const char* text);
  /* What "shape" and "dim" say as text, for any name: the shape of an input, or the value of a symbolic dimension, in
   * the combination `entry` of input shapes. Each combination becomes an entry of the artefact; they share weights and
   * code. `entry` is one that is there (at first there is one, 0) or the next one, which is added without shapes. */
  TwCompilerStatus* (*options_set_shape)(TwCompileOptions* options, size_t entry, const char* input,
                                         const int64_t* shape, int32_t ndim);
  TwCompilerStatus* (*options_set_dimension)(TwCompileOptions* options, size_t entry, const char* name, int64_t value);
  /* The input `name` becomes a constant of the compiled model, in all combinations. The tensor is in CPU memory,
   * row-major and compact; it is copied. */
  TwCompilerStatus* (*options_set_constant)(TwCompileOptions* options, const char* name, const DLTensor* tensor);
  /* Keeps a value on the device from one run to the next, as "state" does: what a run leaves as `output` is the next
   * one's `input`. It begins with the tensor `initial`, which is copied; NULL: with zeros. */
  TwCompilerStatus* (*options_set_state)(TwCompileOptions* options, const char* input, const char* output,
                                         const DLTensor* initial);
  /* The text of a plan to replay: compilation_plan of an earlier compilation. "": decisions are made. */
  TwCompilerStatus* (*options_set_plan)(TwCompileOptions* options, const char* text);

  /* Compiles the ONNX model in the file `path`; external data is read from files below the model's folder. `options`
   * and `callbacks` may be NULL. The artefact is the same, byte for byte, as of `tilewright compile` with the same
   * options, database and cache.
   *
   * Candidates are measured, as by the command, by a program `tilewright-worker` or `tilewright` that belongs to the
   * library: beside it, in ../bin, ../../bin or ../libexec/tilewright. Where there is none, what the compiler predicts
   * to be best is taken, and a warning of the report says so; the option "no-measure" asks for the same without a
   * warning. What was measured is kept in a database ("db"), artefacts and kernels in a cache ("no-cache"); the
   * environment says where, as to the command (docs/reference/options.md). */
  TwCompilerStatus* (*compile_file)(const char* path, const TwCompileOptions* options,
                                    const TwCompileCallbacks* callbacks, TwCompilation** compilation);
  /* The same for the ONNX model in `bytes`. External data is read from files below `data_directory`; NULL or "": a
   * model with external data is an error. Whole artefacts are not cached. */
  TwCompilerStatus* (*compile_bytes)(const void* bytes, size_t size, const char* data_directory,
                                     const TwCompileOptions* options, const TwCompileCallbacks* callbacks,
                                     TwCompilation** compilation);

  /* The artefact in the `size` bytes at `artefact`, which was compiled from an ONNX model, with other weights: byte for
   * byte what a compilation of the model with them gives by the same build, options and plan, in a fraction of the
   * time. `weights` are all initializers of the model that have several elements, and none that it does not have. The
   * artefact may lack other initializers' names: single numbers, and shapes and axes, are part of its code and stay.
   * TW_COMPILER_USAGE names every weight that is missing, unknown, of another type or shape, not a number, or infinite
   * where the old one was not; TW_COMPILER_MODEL: these weights want other code (a bias of zeros that was left out). */
  TwCompilerStatus* (*refit)(const void* artefact, size_t size, const TwNamedTensor* weights, size_t count,
                             const TwCompileCallbacks* callbacks, TwCompilation** compilation);
  /* The same from the files `artefact` and `weights` (.safetensors, or an ONNX model with these initializers) into the
   * file `output`, atomically. The result is not compared with a reference: `tilewright verify` does that. */
  TwCompilerStatus* (*refit_file)(const char* artefact, const char* weights, const char* output,
                                  const TwCompileCallbacks* callbacks);

  /* What a compilation made. compilation_free(NULL) does nothing. */
  void (*compilation_free)(TwCompilation* compilation);
  /* The bytes of a .tw file: *bytes receives where they are, *size how many. The same model, options and build give the
   * same bytes. With the option "stop-after" there are none: NULL and 0. */
  void (*compilation_artefact)(const TwCompilation* compilation, const void** bytes, size_t* size);
  /* The text of all decisions; "" with the option "stop-after". */
  const char* (*compilation_plan)(const TwCompilation* compilation);
  /* A JSON object for programs:
   *   "target"    text; "cpu" resolved: "cpu:x86-64-v4"; several with commas between
   *   "entries"   how many combinations of shapes there are; "entry_names": the list of their names
   *   "opset"     of the model's default domain
   *   "groups", "kernels" (different ones), "winograd_groups"   numbers
   *   "families"  object: family of kernels -> number of groups that it computes
   *   "cached"    whether the artefact is of an earlier compilation
   *   "complete"  whether all was measured that should have been: false after `stop` or where "budget" was too short
   *   "padding"   {"kernels", "us", "of_us", "share"}: kernels that write zeros behind channels, beside all
   *   "profiling" {"seconds", "code_seconds", "reference_seconds", "candidates", ..}: what measuring took, how
   *     long it waited for code and for references
   *   "times"     list of {"phase", "pass", "ns"}; empty where the artefact was cached
   *   "warnings"  list of sentences
   * More keys may come. Of a refit only "target", "entries", "entry_names", "groups", "families" and "warnings" say
   * something. */
  const char* (*compilation_report)(const TwCompilation* compilation);
  TwCompilerStatus* (*compilation_summary)(const TwCompilation* compilation, TwCompileSummary* summary);
  /* Writes the artefact to `path`, atomically. TW_COMPILER_USAGE when there is none. */
  TwCompilerStatus* (*compilation_write)(const TwCompilation* compilation, const char* path);
} TwCompilerApi;

/* The table of at least this version, or NULL when the library is older. */
TW_API const TwCompilerApi* tw_get_compiler_api(uint32_t version);

/* Gets what the command writes, in pieces: `stream` is 1 for its standard output, 2 for its standard error. From the
 * calling thread. */
typedef void (*TwCommandWrite)(void* user, int32_t stream, const char* text, size_t size);

/* The command `tilewright` as a function, for what the table has no functions for: {"explain", "m.tw", "--json"} are
 * its `count` words. `write` gets its text instead of the process's streams, whose signals stay as they are;
 * `callbacks` get the progress of its work, and may cancel it. `user` of both is callbacks->user. `callbacks` and
 * `write` may be NULL. *exit_code receives what the command would exit with where it did its work: 0, or
 * 4 when results differ from what they are compared with. Anything else is an error, as of the table's functions, and
 * not written. */
TW_API TwCompilerStatus* tw_call_command(const char* const* words, size_t count, const TwCompileCallbacks* callbacks,
                                         TwCommandWrite write, int32_t* exit_code);

#ifdef __cplusplus
}
#endif
#endif /* TILEWRIGHT_COMPILER_H_ */
