// Compilations of the C interface: options with their surroundings and the caller's callbacks, and what comes of them.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "driver/api/options.h"
#include "frontend/onnx/imported.h"

struct TwCompilation {
  std::vector<uint8_t> artefact;
  std::string plan;
  std::string report;  // JSON
  // The same for programs without a reader of JSON; views of what is here.
  TwCompileSummary summary = {};
  std::string target;
  std::vector<std::string> names;
  std::vector<TwNamedCount> families;
  std::vector<TwPassTime> times;
  std::vector<const char*> warnings;
};

namespace tw::driver::api {

/// The functions of TwCompilerApi of these names; they throw. `callbacks` may be null.
TwCompilation* compile_file(const std::string& path, const TwCompileOptions& options,
                            const TwCompileCallbacks* callbacks);
TwCompilation* compile_bytes(std::span<const std::byte> bytes, const std::string& data_directory,
                             const TwCompileOptions& options, const TwCompileCallbacks* callbacks);
TwCompilation* refit(std::span<const uint8_t> artefact, std::shared_ptr<const frontend::Weights> weights,
                     const TwCompileCallbacks* callbacks);
void refit_file(const std::string& artefact, const std::string& weights, const std::string& output,
                const TwCompileCallbacks* callbacks);
void write(const TwCompilation& compilation, const std::string& path);

}  // namespace tw::driver::api
