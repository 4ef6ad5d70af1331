// Arrays in files: .npy, .npz and ONNX test data, for inputs and outputs of `run` and `verify`.
#pragma once
#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "artefact/session.h"

namespace tw::cli {

/// Reads a NumPy array (versions 1 to 3, C or Fortran order, little endian). UsageError naming what is wrong.
artefact::Array read_npy(const std::string& path);
artefact::Array parse_npy(const std::vector<std::byte>& bytes, const std::string& name);
/// Bytes of a .npy file of version 1.
std::vector<std::byte> format_npy(const artefact::Array& array);
/// Writes a .npy file atomically.
void write_npy(const std::string& path, const artefact::Array& array);
/// All arrays of a .npz file by name.
std::map<std::string, artefact::Array> read_npz(const std::string& path);
/// All tensors of a .safetensors file by name.
std::map<std::string, artefact::Array> read_safetensors(const std::string& path);
/// The inputs (or outputs) of an ONNX test_data_set folder, in order: input_0.pb, input_1.pb, ..
std::vector<artefact::Array> read_test_data(const std::string& folder, const std::string& stem);

/// Seeded values for an input: floats uniform in [-1, 1), integers and bools 0 or 1 (which are indices of any axis of
/// two or more); the same on every machine.
artefact::Array random_array(const TensorType& type, uint64_t seed);

/// What --input, --random and --entry say.
struct InputOptions {
  std::vector<std::string> inputs;  // NAME=@FILE.npy, FILE.npz, FILE.safetensors or a test_data_set folder
  std::string random;               // "seed=N" or empty
  std::string entry;                // name of an entry, or empty: the first that fits the inputs
};
void add_input_options(CLI::App& app, InputOptions& options);

/// Inputs in the order of the model, for one entry of `session`. UsageError names a missing, unknown or ill-typed input
/// with what the model expects.
std::vector<artefact::Array> gather_inputs(const InputOptions& options, const artefact::Session& session);

}  // namespace tw::cli
