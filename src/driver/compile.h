// The compiler as a function: ONNX in, artefact out. The phases are import, transform, plan, lower, code, assemble.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "driver/artefact/compiled.h"
#include "driver/function_graph.h"
#include "driver/options.h"
#include "frontend/onnx/import.h"
#include "graph/graph.h"

namespace tw::driver {

/// Imports the model once for each of options.imports: from a file, or from bytes with external data below
/// `data_directory` (empty: there may be none).
std::vector<frontend::ImportResult> import_file(const std::string& path, const CompileOptions& options);
std::vector<frontend::ImportResult> import_bytes(std::span<const std::byte> bytes, const std::string& data_directory,
                                                 const CompileOptions& options);

/// Compiles one model for one or several combinations of input shapes into one artefact: an entry for each on each
/// target, kernels of a target and weights that are equal stored once. Throws UserError, Unsupported, UsageError,
/// ResourceError, InternalError.
Compiled compile_file(const std::string& path, const CompileOptions& options);
Compiled compile_imported(const std::vector<frontend::ImportResult>& models, const CompileOptions& options);
/// One combination of shapes.
Compiled compile_graph(const graph::Graph& source, const CompileOptions& options);
/// Several functions on the states of `options`, all of which the first of them has: how it likes them best is how they
/// are stored.
Compiled compile_functions(std::vector<FunctionGraph> functions, const CompileOptions& options);

/// The bytes of the artefact, and the same written atomically to `path`.
std::vector<uint8_t> artefact_bytes(const Compiled& compiled);
void write_artefact(const Compiled& compiled, const std::string& path);

}  // namespace tw::driver
