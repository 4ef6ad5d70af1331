// Bytes that many share and nobody changes: of an array, or a view of memory that something keeps, as a mapped file.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace tw {

/// Two are equal when they are the same memory. Whoever holds one keeps what it lies in.
using SharedBytes = std::shared_ptr<const std::span<const std::byte>>;

inline SharedBytes share(std::span<const std::byte> view, std::shared_ptr<const void> keeper) {
  struct Kept {
    std::shared_ptr<const void> keeper;
    std::span<const std::byte> view;
  };
  const auto kept = std::make_shared<const Kept>(std::move(keeper), view);
  return {kept, &kept->view};
}

inline SharedBytes share(std::vector<std::byte> bytes) {
  const auto array = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return share(*array, array);
}

}  // namespace tw
