// The dataflow of a graph: what each operator computes and moves, and how many words pass along each edge.
//
// Source: Ivanov et al., Data Movement Is All You Need, section III-A. Inference and training graphs alike: forward and
// backward nodes are nodes.
#pragma once
#include <string>
#include <vector>

#include "dataflow/iteration_space.h"
#include "graph/op.h"

namespace tw::dataflow {

/// A node of the graph; a group of nodes is one operator.
struct Operator {
  std::string name, op;  // of a group: "group"
  IterationSpace space;
  OperatorClass operator_class = OperatorClass::kElementwise;
  double flop = 0;            // work.h says what counts
  int64_t words_read = 0;     // distinct elements of distinct values
  int64_t words_written = 0;  // elements of the outputs
  bool is_view = false;       // it only gives its input another shape: no words

  int64_t words() const { return words_read + words_written; }
  double flop_per_word() const { return words() > 0 ? flop / static_cast<double>(words()) : 0; }
};

/// A value on its way from the operator that makes it to one that reads it. Words: its elements.
struct Edge {
  int from = -1, to = -1;  // operators by number; -1: the graph's inputs and constants, its outputs
  std::string value;
  TensorType type;
  bool is_constant = false;
};

struct Dataflow {
  std::vector<Operator> operators;  // in the order of the graph's nodes
  std::vector<Edge> edges;          // by reader, the graph's outputs last
};

Dataflow analyze(const graph::Graph& graph, const graph::OpTable& ops);

/// What the operators of one class have of all.
struct ClassShare {
  OperatorClass operator_class = OperatorClass::kElementwise;
  int64_t operators = 0;
  double flop = 0;
  double words = 0;
};
/// In the order of kOperatorClasses.
std::vector<ClassShare> shares_of(const std::vector<Operator>& operators);

}  // namespace tw::dataflow
