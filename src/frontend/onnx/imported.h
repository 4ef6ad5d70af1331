// What an import is told, and what comes of it: a graph, or all that is not supported.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "graph/op.h"
#include "support/error.h"
#include "support/work_watch.h"

namespace tw::frontend {

/// What should be an ONNX model is something else, or is truncated.
class NotAModel : public UserError {
 public:
  NotAModel(const std::string& subject, const std::string& sign)
      : UserError("{} not an ONNX model, or truncated: {}", subject, sign), sign_(sign) {}
  /// What shows it: "it begins with 'root:x:0'".
  const std::string& sign() const { return sign_; }

 private:
  std::string sign_;
};

/// The newest opset of the default domain whose operator definitions were read when the table was written.
constexpr int kNewestOpset = 27;

/// Elements of a tensor of the model's graph.
struct Weight {
  TensorType type;
  graph::Bytes bytes;
};
using Weights = std::map<std::string, Weight, std::less<>>;

/// What the graph is for.
enum class Purpose : uint8_t {
  kInference,  // a Dropout is nothing
  kTraining,   // it is an operator `dropout`, for which the step has a seed; one whose training_mode is false is
               // nothing. Initializers of f32 with dimensions may change: nothing is computed of them here
};

/// Values whose number of rows comes out of a run: there is room for `bound` of them along the first axis of `rows`, of
/// which as many as `count`, i64[1], says hold something, the first ones.
struct CountedRows {
  std::string name;  // of the ONNX value that they are computed for
  int64_t bound = 0;
  std::string rows, count;  // values of the graph
};

struct ImportOptions {
  std::map<std::string, Shape> shapes = {};                // --shape NAME=1x3x224x224: an input's whole shape
  std::map<std::string, int64_t> dims = {};                // --dim NAME=8: a symbolic dimension, wherever it stands
  std::map<std::string, graph::RefTensor> constants = {};  // --const NAME=@x.npy: an input that becomes a constant
  /// --bound NAME=N: rows of the operator's output NAME that there is room for, where their number comes out of a run;
  /// without a word as many as its operands' shapes allow.
  std::map<std::string, int64_t> bounds = {};
  /// Whether such operators become ones with room for all their rows (ImportResult::counted). If not, what decides the
  /// number must be known at import.
  bool counts_rows = false;
  std::shared_ptr<const Weights> weights = nullptr;  // of initializers of the main graph, in the place of their own
  /// --allow-links DIR: folders whose files external data may be, wherever the model lies: reached by links, or with
  /// several hard links. Without them links stay within the model's folder, and a file has one name.
  std::vector<std::string> link_folders = {};
  Purpose purpose = Purpose::kInference;
  std::shared_ptr<WorkWatch> watch = {};  // of time and memory; null: unlimited
};

struct ImportResult {
  graph::Graph
      graph;  // compact; inputs and outputs in the model's order and under its names, then `count` of `counted`
  std::vector<CountedRows> counted;
  std::vector<std::string> warnings;
  int64_t opset = 0;                        // of the default domain
  int64_t ir_version = 0;                   // of the model file
  std::string producer;                     // "name version" of the program that wrote the model; may be empty
  std::vector<std::string> external_files;  // absolute paths of the files of external data that were read
  /// Initializers of the main graph that the import only hands on, whose elements it does not look at. For inference
  /// those of several elements, for training those of f32 with dimensions.
  std::set<std::string> weights;
  std::vector<graph::Bytes> elements;  // of `weights`, in their order
  std::set<std::string> infinite;      // those of `weights` in which an element is infinite
  std::set<std::string> needed;        // all initializers of the main graph that some node needs
  /// The model without the elements of `weights`, and with all other data in it: what it takes to import it with other
  /// weights. Empty when it is larger than a model file may be.
  std::string skeleton;
};

/// What kept one kind of operator (or one input) from being imported.
struct UnsupportedItem {
  std::string op;      // "Conv"; empty: an input of a type that is not supported, see `reason`
  std::string domain;  // empty for the default domain
  int64_t opset = 0;
  std::string reason;              // empty: no converter for this operator at this opset
  std::vector<std::string> nodes;  // names of all nodes concerned
};

/// All reasons for which a model is not supported, at once; what() has a line for each. `bindable` are the model inputs
/// that would have to be bound with --const.
class UnsupportedModel : public Unsupported {
 public:
  explicit UnsupportedModel(std::vector<UnsupportedItem> items, std::vector<std::string> bindable);
  const std::vector<UnsupportedItem>& items() const { return items_; }
  const std::vector<std::string>& bindable() const { return bindable_; }

 private:
  std::vector<UnsupportedItem> items_;
  std::vector<std::string> bindable_;
};

}  // namespace tw::frontend
