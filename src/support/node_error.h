// An error that is about one node of a model.
#pragma once
#include <string>
#include <utility>

#include "support/error.h"

namespace tw {

/// The message names the node, too.
class NodeError : public UserError {
 public:
  template <typename... Args>
  explicit NodeError(std::string node, fmt::format_string<Args...> format, Args&&... args)
      : UserError(fmt::format(format, std::forward<Args>(args)...)), node_(std::move(node)) {}
  const std::string& node() const { return node_; }

 private:
  std::string node_;
};

}  // namespace tw
