// Arrays in files: .npy, .npz, .safetensors and ONNX test data.
#pragma once
#include <map>
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
/// All arrays of a .npz or .safetensors file by name; that of a .npy file without a name. UsageError for other files.
std::map<std::string, artefact::Array> read_arrays(const std::string& path);
/// One array: "FILE.npy", "FILE.npz:KEY", "FILE.safetensors:KEY", or without ":KEY" where the file holds one only.
artefact::Array read_array(const std::string& text);
/// The inputs (or outputs) of an ONNX test_data_set folder, in order: input_0.pb, input_1.pb, ..
std::vector<artefact::Array> read_test_data(const std::string& folder, const std::string& stem);

}  // namespace tw::cli
