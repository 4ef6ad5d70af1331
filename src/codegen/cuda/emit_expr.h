// Expressions as CUDA C++ text. Private to src/codegen/cuda.
#pragma once
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "expr/analyzer.h"
#include "loop/loop.h"

namespace tw::codegen {

/// What an expression may name.
struct CudaNames {
  struct Array {
    std::string name;
    Shape shape;                  // as the text has it
    std::vector<bool> of_thread;  // dims that are the thread's index, left out of the text; empty: none
    bool in_registers = false;
    int swizzled =
        0;  // bytes of an element of lines of 128 whose 16-byte parts lie in another order in each of 8; or 0
  };
  std::map<std::string, Array> buffers;
  std::map<std::string, std::string> variables;                // vectors: tw_vec
  std::set<std::string> data;                                  // variables of whole numbers that are no indices
  std::unordered_map<const ExprNode*, std::string> evaluated;  // nodes whose value a variable of the text holds
  std::set<std::string> performed;                             // texts of loads done before: valid addresses
  Analyzer ranges;                                             // of loop variables and lets
  bool narrow = false;                                         // whether index arithmetic fits 32 bits
};

/// The number of an element: C++ of what varies (empty: nothing) and a constant, added apart. Sums of products are sums
/// of terms: what a loop does not change is added up outside of it, and constants end up in the instructions.
struct CudaOffset {
  std::string varying;
  int64_t constant = 0;
};

/// "float", "long long", .. of a scalar; 16-bit floats are stored as their bits. tw_vec<..> of a vector.
std::string cuda_type(DataType type);
/// Whether `e` is made of nothing but whole numbers and variables that are indices.
bool is_index(const Expr& e, const CudaNames& names);
/// The type of a variable that holds `e`: indices are int where they fit.
std::string cuda_variable_type(const Expr& e, const CudaNames& names);

/// C++ of a scalar expression, or of one lane of a vector (`lane`: the text of its number). Throws InternalError on
/// unknown names and calls.
std::string cuda_expr(const Expr& e, const CudaNames& names, const std::string& lane = "");
/// C++ of a scalar whole number or condition where its type does not matter: indices are int where they fit.
std::string cuda_index(const Expr& e, const CudaNames& names);
/// Long parts of `e` that occur in it more than once and may be evaluated before it, each after its own parts. The text
/// of an expression whose parts have no variables can be exponentially longer than the expression.
std::vector<Expr> shared_parts(const Expr& e, const CudaNames& names);
/// Adds the loads that evaluating `e` performs to names.performed.
void add_performed(const Expr& e, CudaNames& names);
/// C++ of the element that an access addresses: "p0[...]".
std::string cuda_element(const std::string& buffer, const std::vector<Expr>& indices, const CudaNames& names,
                         const std::string& lane = "");
/// Where that element is among those of the buffer.
CudaOffset cuda_offset(const std::string& buffer, const std::vector<Expr>& indices, const CudaNames& names);
/// Where it would be if the parts of swizzled lines lay in order: matrix instructions put them in order themselves.
CudaOffset cuda_unswizzled_offset(const std::string& buffer, const std::vector<Expr>& indices, const CudaNames& names);
/// C++ of the address of a whole vector, "*(tw_vec<float, 4>*)&p0[..]", when `indices` are contiguous and the first
/// element is aligned to what one access moves; empty otherwise.
std::string cuda_vector(const std::string& buffer, DataType type, const std::vector<Expr>& indices,
                        const CudaNames& names);
/// Device functions that the text calls (prelude.cpp).
std::string cuda_prelude();

}  // namespace tw::codegen
