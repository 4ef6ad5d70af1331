#ifdef TW_RUNTIME_CUDA
#include "tests/runtime/fake_cublaslt.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "tests/runtime/fake_cuda.h"

namespace tw::test {

FakeLibrary fake_library;

namespace {

namespace cuda = runtime::cuda;

/// A handle, a description, a layout or a preference.
struct Object {
  std::map<int, std::vector<uint8_t>> attributes;
  uint64_t rows = 0, columns = 0;
  int64_t line = 0;
  template <typename T>
  T get(int attribute, T otherwise) const {
    const auto found = attributes.find(attribute);
    if (found != attributes.end()) std::memcpy(&otherwise, found->second.data(), sizeof(T));
    return otherwise;
  }
};

Object& of(void* object) { return *static_cast<Object*>(object); }

int make(void** object) {
  if (fake_library.make_result != 0) return fake_library.make_result;
  *object = new Object;
  return ++fake_library.objects, 0;
}

int destroy(void* object) {
  delete &of(object);
  return --fake_library.objects, 0;
}

int set(void* object, int attribute, const void* value, size_t bytes) {
  const auto* data = static_cast<const uint8_t*>(value);
  of(object).attributes[attribute].assign(data, data + bytes);
  return 0;
}

// Signature fixed by cublasLtMatmulAlgoGetHeuristic.
int choose(void*, void*, void*, void*, void*, void*, void*, int wanted, cuda::MatmulChoice* choices, int* found) {
  *found = std::min(wanted, fake_library.algorithms);
  for (int i = 0; i < *found; ++i) {
    choices[i] = {};
    choices[i].algorithm[0] = static_cast<uint64_t>(i);
    choices[i].workspace_bytes = fake_library.workspace_bytes;
  }
  return 0;
}

int config_get(const void* algorithm, int attribute, void* value, size_t bytes, size_t* written) {
  const auto number = static_cast<size_t>(*static_cast<const uint64_t*>(algorithm));
  if (attribute != 8 || bytes != sizeof(uint16_t)) return 7;
  const uint16_t cluster = number < fake_library.clusters.size() ? fake_library.clusters[number] : 0;
  std::memcpy(value, &cluster, bytes);
  return *written = bytes, 0;
}

float* at(cuda::DevicePtr address) { return reinterpret_cast<float*>(address); }

// Matrices lie column by column.
struct Product {
  Object desc, a, b, d;
  cuda::DevicePtr a_at, b_at, c_at, d_at;
  float beta;

  void run() const {
    for (int64_t i = 0; i < d.get<int32_t>(5, 1); ++i) multiply(i);
  }
  void multiply(int64_t matrix) const {
    const bool a_transposed = desc.get<int>(3, 0) == 1, b_transposed = desc.get<int>(4, 0) == 1;
    const auto steps = static_cast<int64_t>(a_transposed ? a.rows : a.columns);
    const auto start = [&](cuda::DevicePtr p, const Object& o) { return at(p) + matrix * o.get<int64_t>(6, 0); };
    const int epilogue = desc.get<int>(7, 1);
    for (int64_t row = 0; row < static_cast<int64_t>(d.rows); ++row) {
      for (int64_t column = 0; column < static_cast<int64_t>(d.columns); ++column) {
        const int64_t place = row + column * d.line;
        float sum = beta == 0 ? 0 : beta * start(c_at, d)[place];
        for (int64_t l = 0; l < steps; ++l)
          sum += start(a_at, a)[a_transposed ? l + row * a.line : row + l * a.line] *
                 start(b_at, b)[b_transposed ? column + l * b.line : l + column * b.line];
        if ((epilogue & 4) != 0) sum += at(desc.get<cuda::DevicePtr>(8, 0))[row];
        if ((epilogue & 2) != 0) sum = std::max(sum, 0.0f);
        start(d_at, d)[place] = sum;
      }
    }
  }
};

// Signature fixed by cublasLtMatmul.
int matmul(void*, void* desc, const void*, cuda::DevicePtr a, void* a_layout, cuda::DevicePtr b, void* b_layout,
           const void* beta, cuda::DevicePtr c, void*, cuda::DevicePtr d, void* d_layout, const void* algorithm,
           cuda::DevicePtr workspace, size_t workspace_bytes, cuda::StreamHandle) {
  if (workspace_bytes > 0 && workspace == 0) return 7;
  fake_library.used = static_cast<int>(*static_cast<const uint64_t*>(algorithm));
  const Product product{
      of(desc), of(a_layout), of(b_layout), of(d_layout), a, b, c, d, *static_cast<const float*>(beta)};
  put_on_stream([product] { product.run(); });
  return 0;
}

}  // namespace

const cuda::Cublaslt& fake_cublaslt() {
  static const cuda::Cublaslt library = [] {
    cuda::Cublaslt l{};
    l.version = [] { return size_t{130100}; };
    l.create = make;
    l.desc_create = [](void** desc, int, int) { return make(desc); };
    l.layout_create = [](void** layout, int, uint64_t rows, uint64_t columns, int64_t line) {
      make(layout);
      of(*layout).rows = rows;
      of(*layout).columns = columns;
      of(*layout).line = line;
      return 0;
    };
    l.preference_create = make;
    l.destroy = l.desc_destroy = l.layout_destroy = l.preference_destroy = destroy;
    l.desc_set = l.layout_set = l.preference_set = set;
    l.choose = choose;
    l.config_get = config_get;
    l.matmul = matmul;
    return l;
  }();
  return library;
}

}  // namespace tw::test
#endif
