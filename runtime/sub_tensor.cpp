#include "runtime/sub_tensor.h"

namespace tw::runtime {

void SubTensor::spread(const Copy& copy, const Copy& repeat) const { spread(0, whole(), part(), copy, repeat); }
void SubTensor::gather(const Copy& copy) const { gather(0, whole(), part(), copy); }

void SubTensor::spread(size_t dim, Place whole, Place part, const Copy& copy, const Copy& repeat) const {
  if (whole.bytes == part.bytes) return copy(whole.at, part.at, part.bytes);
  const int64_t rows = spec_.shape[dim], given = shapes_.extent(role_, tensor_, dim);
  if (whole.bytes / rows == part.bytes / given) {
    copy(whole.at, part.at, part.bytes);
  } else {
    for (int64_t i = 0; i < given; ++i) spread(dim + 1, whole.row(i, rows), part.row(i, given), copy, repeat);
  }
  const Place last = whole.row(given - 1, rows);
  for (int64_t i = given; i < rows; ++i) repeat(whole.row(i, rows).at, last.at, last.bytes);
}

void SubTensor::gather(size_t dim, Place whole, Place part, const Copy& copy) const {
  if (whole.bytes == part.bytes) return copy(part.at, whole.at, part.bytes);
  const int64_t rows = spec_.shape[dim], wanted = shapes_.extent(role_, tensor_, dim);
  if (whole.bytes / rows == part.bytes / wanted) return copy(part.at, whole.at, part.bytes);
  for (int64_t i = 0; i < wanted; ++i) gather(dim + 1, whole.row(i, rows), part.row(i, wanted), copy);
}

}  // namespace tw::runtime
