#ifdef TW_RUNTIME_CUDA
#include "tests/runtime/fake_cudnn.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/runtime/fake_cuda.h"

namespace tw::test {

FakeCudnn fake_cudnn;

namespace {

namespace cuda = runtime::cuda;

constexpr int kBadParam = 2000, kNotSupported = 3000;

/// A handle or a descriptor.
struct Object {
  int kind = -1;
  bool finished = false;
  std::map<int, std::vector<uint8_t>> attributes;
  template <typename T>
  std::vector<T> list(int attribute) const {
    const auto found = attributes.find(attribute);
    if (found == attributes.end()) return {};
    std::vector<T> values(found->second.size() / sizeof(T));
    std::memcpy(values.data(), found->second.data(), found->second.size());
    return values;
  }
  template <typename T>
  T get(int attribute, T otherwise = {}) const {
    const std::vector<T> values = list<T>(attribute);
    return values.empty() ? otherwise : values[0];
  }
  const Object& at(int attribute) const { return *get<const Object*>(attribute); }
  template <typename T>
  void put(int attribute, T value) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    attributes[attribute].assign(bytes, bytes + sizeof(T));
  }
};

Object& of(void* object) { return *static_cast<Object*>(object); }

int make(int kind, void** object) {
  *object = new Object{kind, false, {}};
  return ++fake_cudnn.objects, 0;
}

int destroy(void* object) {
  delete &of(object);
  return --fake_cudnn.objects, 0;
}

// Of each cudnnBackendAttributeType_t that is used.
const std::map<int, size_t> kSizes = {{0, 8}, {1, 4}, {2, 1}, {3, 8},  {4, 4},  {5, 8}, {6, 8},
                                      {7, 4}, {8, 4}, {9, 4}, {14, 4}, {15, 8}, {18, 4}};

int set(void* object, int attribute, int type, int64_t count, const void* values) {
  const auto* data = static_cast<const uint8_t*>(values);
  if (of(object).finished || count < 1) return kBadParam;
  if (type == 15) {
    for (int64_t i = 0; i < count; ++i) {
      if (!static_cast<Object* const*>(values)[i]->finished) return kBadParam;
    }
  }
  of(object).attributes[attribute].assign(data, data + static_cast<size_t>(count) * kSizes.at(type));
  return 0;
}

int finalize(void* object) {
  Object& o = of(object);
  const auto offered = [&](const FakeEngine& e) { return e.index == o.get<int64_t>(1301); };
  if (o.kind == 2 && std::ranges::none_of(fake_cudnn.engines, offered)) return kNotSupported;
  o.finished = true;
  return 0;
}

void describe(const FakeEngine& engine, Object& config) {
  config.put(300, engine.index);
  for (const auto& [type, value] : engine.knobs) config.put(1000 + type, value);
}

// Signature fixed by cudnnBackendGetAttribute.
int read(void* object, int attribute, int, int64_t room, int64_t* count, void* values) {
  Object& from = of(object);
  const auto into = [&](int64_t i) -> Object& { return **(static_cast<Object**>(values) + i); };
  const auto engine = [&](int64_t index) -> const FakeEngine& {
    return *std::ranges::find(fake_cudnn.engines, index, &FakeEngine::index);
  };
  *count = 1;
  if (attribute == 202) {
    *count = std::min(room, std::ssize(fake_cudnn.engines));
    for (int64_t i = 0; i < *count; ++i) describe(fake_cudnn.engines[static_cast<size_t>(i)], into(i));
  } else if (attribute == 300) {
    into(0).put(1301, from.get<int64_t>(300));
  } else if (attribute == 302) {
    *count = 0;
    for (const auto& [key, bytes] : from.attributes) {
      if (key < 1000) continue;
      into(*count).put(600, key - 1000);
      into((*count)++).put(601, from.get<int64_t>(key));
    }
  } else if (attribute == 600) {
    *static_cast<int*>(values) = from.get<int>(600);
  } else if (attribute == 1303) {
    const std::vector<int>& notes = engine(from.get<int64_t>(1301)).notes;
    std::ranges::copy(notes, static_cast<int*>(values));
    *count = std::ssize(notes);
  } else {
    *static_cast<int64_t*>(values) = attribute == 402 ? fake_cudnn.workspace_bytes : from.get<int64_t>(attribute);
  }
  return 0;
}

/// The numbers of a tensor in their order.
using Values = std::vector<float>;

/// A run of a graph.
class Run {
 public:
  Run(const Object& graph, std::map<int64_t, uintptr_t> addresses)
      : operations_(graph.list<const Object*>(801)), addresses_(std::move(addresses)) {}

  void run() {
    for (const Object* operation : operations_) {
      const Object& result = operation->at(kResults.at(operation->kind));
      values_[&result] = operation->kind == 10   ? convolve(*operation)
                         : operation->kind == 13 ? follow(*operation)
                         : operation->kind == 19 ? multiply(*operation)
                                                 : reduce(*operation);
      if (result.get<uint8_t>(907) == 0) store(result);
    }
  }

 private:
  inline static const std::map<int, int> kResults = {{10, 705}, {13, 753}, {19, 1522}, {22, 1611}};
  static std::vector<int64_t> extents(const Object& t) { return t.list<int64_t>(902); }
  // The place of an element in memory; where an extent is 1, any index names its one element.
  static int64_t place(const Object& t, std::vector<int64_t> index) {
    const std::vector<int64_t> shape = extents(t), strides = t.list<int64_t>(903);
    int64_t at = 0;
    for (size_t d = 0; d < shape.size(); ++d) at += (shape[d] == 1 ? 0 : index[d]) * strides[d];
    return at;
  }
  float at(const Object& t, const std::vector<int64_t>& index) const {
    const auto element = static_cast<size_t>(place(t, index));
    const auto known = values_.find(&t);
    if (known != values_.end()) return known->second[element];
    const uintptr_t address = addresses_.at(t.get<int64_t>(906));
    fake_cudnn.by_value += t.get<uint8_t>(908);
    if (t.get<int>(901) == 0) return reinterpret_cast<const float*>(address)[element];
    const uint32_t bits = uint32_t{reinterpret_cast<const uint16_t*>(address)[element]} << 16;  // bf16
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  void store(const Object& t) {
    std::ranges::copy(values_.at(&t), reinterpret_cast<float*>(addresses_.at(t.get<int64_t>(906))));
  }
  template <typename Body>
  static Values each(const Object& t, const Body& body) {
    const std::vector<int64_t> s = extents(t);
    Values values(static_cast<size_t>(s[0] * s[1] * s[2] * s[3]));
    for (int64_t i = 0; i < s[0] * s[1] * s[2] * s[3]; ++i) {
      const std::vector<int64_t> index = {i / (s[1] * s[2] * s[3]), i / (s[2] * s[3]) % s[1], i / s[3] % s[2],
                                          i % s[3]};
      values[static_cast<size_t>(place(t, index))] = body(index);
    }
    return values;
  }

  Values convolve(const Object& operation) const {
    const Object &window = operation.at(702), &w = operation.at(703), &x = operation.at(704);
    const std::vector<int64_t> in = extents(x), filter = extents(w), strides = window.list<int64_t>(103),
                               pads = window.list<int64_t>(105), dilations = window.list<int64_t>(102);
    const int64_t each_group = filter[0] / (in[1] / filter[1]);
    return each(operation.at(705), [&](const std::vector<int64_t>& y) {
      float sum = 0;
      for (int64_t i = 0; i < filter[1] * filter[2] * filter[3]; ++i) {
        const int64_t c = i / (filter[2] * filter[3]), r = i / filter[3] % filter[2], s = i % filter[3];
        const int64_t row = y[2] * strides[0] - pads[0] + r * dilations[0];
        const int64_t column = y[3] * strides[1] - pads[1] + s * dilations[1];
        const bool inside = row >= 0 && row < in[2] && column >= 0 && column < in[3];
        if (inside) sum += at(x, {y[0], y[1] / each_group * filter[1] + c, row, column}) * at(w, {y[1], c, r, s});
      }
      return sum;
    });
  }

  Values multiply(const Object& operation) const {
    const Object &a = operation.at(1520), &b = operation.at(1521);
    return each(operation.at(1522), [&](const std::vector<int64_t>& y) {
      float sum = 0;
      for (int64_t i = 0; i < extents(a)[3]; ++i) sum += at(a, {y[0], y[1], y[2], i}) * at(b, {y[0], y[1], i, y[3]});
      return sum;
    });
  }

  // Along the last dimension.
  Values reduce(const Object& operation) const {
    const Object& x = operation.at(1610);
    const bool sums = operation.at(1612).get<int>(1600) == 0;
    return each(operation.at(1611), [&](const std::vector<int64_t>& y) {
      float result = sums ? 0 : -INFINITY;
      for (int64_t i = 0; i < extents(x)[3]; ++i) {
        const float value = at(x, {y[0], y[1], y[2], i});
        result = sums ? result + value : std::max(result, value);
      }
      return result;
    });
  }

  Values follow(const Object& operation) const {
    const Object& kind = operation.at(750);
    const auto upper = static_cast<float>(kind.get<double>(4, 1e30)), slope = static_cast<float>(kind.get<double>(5));
    return each(operation.at(753), [&](const std::vector<int64_t>& y) {
      const float value = at(operation.at(751), y);
      const auto other = [&] { return at(operation.at(752), y); };
      switch (kind.get<int>(0)) {
        case 0:
          return value + other();
        case 1:
          return value * other();
        case 6:
          return value / other();
        case 9:
          return value - other();
        case 13:
          return std::exp(value);
        case 15:
          return std::log(value);
        case 303:
          return value >= other() ? 1.0f : 0.0f;
        case 501:
          return static_cast<float>(y[static_cast<size_t>(kind.get<int64_t>(9))]);
        case 601:
          return at(operation.at(758), y) != 0 ? value : other();
        default:
          break;
      }
      return value < 0 ? slope * value : std::min(value, upper);  // ReLU
    });
  }

  std::vector<const Object*> operations_;
  std::map<int64_t, uintptr_t> addresses_;
  std::map<const Object*, Values> values_;
};

int execute(void*, void* plan, void* pack) {
  const Object &config = of(plan).at(401), &engine = config.at(300);
  const auto numbers = of(pack).list<int64_t>(1000);
  const auto pointers = of(pack).list<uintptr_t>(1001);
  if (fake_cudnn.workspace_bytes > 0 && of(pack).get<uintptr_t>(1003) == 0) return kBadParam;
  fake_cudnn.used = engine.get<int64_t>(1301);
  fake_cudnn.knobs.clear();
  for (const Object* knob : config.list<const Object*>(302))
    fake_cudnn.knobs[knob->get<int>(600)] = knob->get<int64_t>(601);
  std::map<int64_t, uintptr_t> addresses;
  for (size_t i = 0; i < numbers.size(); ++i) addresses[numbers[i]] = pointers[i];
  put_on_stream([&graph = engine.at(1300), addresses] { Run(graph, addresses).run(); });
  return 0;
}

}  // namespace

const cuda::Cudnn& open_fake_cudnn() {
  static const cuda::Cudnn library = [] {
    cuda::Cudnn l{};
    l.version = [] { return size_t{91900}; };
    l.error_string = [](int status) { return status == kNotSupported ? "NOT_SUPPORTED" : "BAD_PARAM"; };
    l.last_error = [](char* text, size_t bytes) { std::strncpy(text, "a reason\nof two lines", bytes); };
    l.create = [](void** handle) { return make(-1, handle); };
    l.set_stream = [](void*, cuda::StreamHandle) { return 0; };
    l.descriptor_create = make;
    l.destroy = l.descriptor_destroy = destroy;
    l.set = set;
    l.get = read;
    l.finalize = finalize;
    l.execute = execute;
    return l;
  }();
  return library;
}

}  // namespace tw::test
#endif
