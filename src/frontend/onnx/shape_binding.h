// Static shapes for a model's inputs: its own dimensions, --shape and --dim, and the agreement of all later types.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor_type.h"
#include "frontend/onnx/imported.h"

namespace onnx {
class ValueInfoProto;
}  // namespace onnx

namespace tw::frontend {

/// The tensor type a model declares for a value: unknown rank has no `dims`, an unknown extent is -1.
struct DeclaredType {
  DataType type;
  std::optional<Shape> dims;
  std::vector<std::string> symbols;  // for each dimension its dim_param, or empty
};

/// Throws Unsupported for what is not a dense tensor (sequence, map, optional, sparse), UserError for bad extents.
DeclaredType declared_type(const onnx::ValueInfoProto& value);

/// The declared type in words, whatever it is: "f32[batch, 3, ?, 224]", "a sequence", "STRING".
std::string describe_type(const onnx::ValueInfoProto& value);

/// Whether it is a dense tensor whose rank or some dimension the model leaves open.
bool is_open(const onnx::ValueInfoProto& value);

/// An option's shape of an input that the model's own contradicts.
class ShapeContradiction : public UserError {
 public:
  ShapeContradiction(const std::string& message, std::string input, Shape given, DeclaredType declared)
      : UserError(message), input_(std::move(input)), given_(std::move(given)), declared_(std::move(declared)) {}
  const std::string& input() const { return input_; }
  const Shape& given() const { return given_; }
  const DeclaredType& declared() const { return declared_; }  // has dims

 private:
  std::string input_;
  Shape given_;
  DeclaredType declared_;
};

class ShapeBinding {
 public:
  explicit ShapeBinding(const ImportOptions& options) : options_(options), symbols_(options.dims) {}

  /// Takes in all inputs: --shape and --const give values to the symbols that stand in these inputs' shapes. Throws
  /// UserError when the options contradict the model or each other or name nothing of it.
  void add_inputs(const std::vector<const onnx::ValueInfoProto*>& inputs);

  /// The static types of those inputs, in order. Throws UserError naming all inputs with unbound dimensions and the
  /// options that would bind them.
  std::vector<TensorType> input_types() const;

  /// Why `actual` cannot be the value declared as `declared`; empty when it can. Symbols without a value fit anything.
  std::string disagreement(const DeclaredType& declared, const TensorType& actual) const;

 private:
  struct Input {
    std::string name;
    DeclaredType declared;
  };
  void bind(const Input& input, const Shape& shape, std::string_view option);
  void check_options_used() const;
  int64_t extent(const DeclaredType& declared, size_t d) const;  // -1: unbound

  const ImportOptions& options_;
  std::map<std::string, int64_t> symbols_;
  std::vector<Input> inputs_;
};

}  // namespace tw::frontend
