// What the verbs of the command may be told besides what a compilation is told: fields, to which the rows of
// option_table.cpp bind. A verb sees the options that name it.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "driver/options.h"
#include "tilewright/values/inputs.h"
#include "train/options.h"

namespace tw::cli {

/// What no label is.
constexpr int64_t kNoLabel = std::numeric_limits<int64_t>::min();

struct VerbOptions {
  std::string model;  // the word after the verb: MODEL, FILE

  // compile
  std::string output;
  std::string plan_out;
  bool time_passes = false;

  // run, bench, verify, explain
  InputOptions inputs;
  int threads = 0;
  std::string level;
  std::vector<std::string> trusted;  // public keys: FILE.pem, or 64 hexadecimal digits
  std::vector<std::string> outputs;  // NAME=@FILE.npy
  std::string output_dir;
  double warm_up_ms = 200;
  double duration_s = 3;
  int iterations = 10;
  bool profile = false;
  bool peak = false;
  std::string against;
  double rtol = 1e-4;
  double atol = 1e-5;
  std::string group;
  int top = 0;
  bool no_run = false;
  bool why = false;

  // analyze
  bool edges = false;
  std::string dot;  // file to write

  // bench, report
  std::string trace_out;

  // report
  std::string page;      // HTML to write
  std::string compared;  // another artefact
  std::string peer;      // "onnxruntime", FILE.json

  // refit
  std::vector<std::string> weights;  // FILE.safetensors, MODEL.onnx
  std::string refitted;
  bool no_verify = false;

  // sign
  std::string key;            // FILE.pem
  std::string signed_output;  // empty: the artefact itself

  // train, analyze
  std::string trained_output;
  train::TrainOptions training;  // as far as an option is a field of it
  train::LossScale loss_scale;   // of f16
  int64_t ignore_index = kNoLabel;
  bool no_skip = false;
  bool frozen_statistics = false;
  int64_t memory_limit = 0;     // bytes; 0: none
  std::string training_option;  // "--loss": one of group Training that was given

  // export-weights
  std::string trained_state;  // FILE.safetensors
  std::string exported;       // ONNX model to write

  // advise
  std::string measure = "best";  // "all", "best", or numbers of advice
  std::string apply;             // numbers of advice
  std::string changed;           // the model that is written
  uint64_t seed = 0;
  int64_t first_layers = 3;

  std::string section;     // inspect
  bool check = false;      // inspect
  std::string groups_out;  // inspect: ONNX model to write
  bool remeasure = false;  // doctor
  int64_t max_bytes = 0;   // cache prune

  // templates
  std::string template_target = "cuda:sm_90a";
  std::string template_dtype = "f16";
  std::vector<std::string> only, epilogues;
  std::string folder;
  int jobs = 0;
  std::string nvcc;
  std::string headers;

  driver::CompileOptions compile = {};
  std::string compile_option;  // "--target": one of `compile` that was given on the command line or in a file

  std::string source;  // verify: ONNX model that the artefact was compiled from
};

}  // namespace tw::cli
