// compile_cpp MODEL.onnx: compiles a model in memory, loads the artefact from memory, and runs it on inputs of 0, 1,
// .., 6, 0, 1, ..; prints what was compiled and the sum of every f32 output.
#include <tilewright/runtime.h>

#include <cstdio>
#include <memory>
#include <string>
#include <tilewright/compiler.hpp>
#include <vector>

namespace {

const TwApi& api() {
  static const TwApi* const table = tw_get_api(TW_API_VERSION);
  if (table == nullptr) throw std::runtime_error("libtilewright_rt is older than this program");
  return *table;
}

void check(TwStatus* status) {
  if (status == nullptr) return;
  const std::string message = api().status_message(status);
  api().status_free(status);
  throw std::runtime_error(message);
}

struct Free {
  void operator()(TwModel* model) const { api().model_free(model); }
  void operator()(TwContext* context) const { api().context_free(context); }
};

// One tensor with memory of its own.
struct Tensor {
  explicit Tensor(const TwTensorInfo& info)
      : name(info.name), shape(info.shape, info.shape + info.ndim), dtype(info.dtype) {
    bytes.resize(elements() * ((dtype.bits + 7) / 8));
    if (!is_f32()) return;
    for (std::size_t i = 0; i < elements(); ++i) floats()[i] = static_cast<float>(i % 7);
  }

  std::size_t elements() const {
    std::size_t count = 1;
    for (const int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    return count;
  }
  bool is_f32() const { return dtype.code == kDLFloat && dtype.bits == 32; }
  float* floats() { return reinterpret_cast<float*>(bytes.data()); }
  DLTensor view() {
    return {bytes.data(), {kDLCPU, 0}, static_cast<int32_t>(shape.size()), dtype, shape.data(), nullptr, 0};
  }

  std::string name;
  std::vector<int64_t> shape;
  DLDataType dtype;
  std::vector<unsigned char> bytes;
};

void run(const tilewright::Bytes& artefact) {
  TwModel* loaded = nullptr;
  check(api().model_load_memory(artefact.data, artefact.size, nullptr, &loaded));
  const std::unique_ptr<TwModel, Free> model(loaded);
  TwContext* created = nullptr;
  check(api().context_create(model.get(), nullptr, &created));
  const std::unique_ptr<TwContext, Free> context(created);

  std::vector<Tensor> inputs, outputs;
  TwTensorInfo info{};
  info.struct_size = sizeof(info);
  for (int32_t i = 0; i < api().input_count(model.get()); ++i) {
    check(api().input_info(model.get(), 0, i, &info));
    inputs.emplace_back(info);
  }
  for (int32_t i = 0; i < api().output_count(model.get()); ++i) {
    check(api().output_info(model.get(), 0, i, &info));
    outputs.emplace_back(info);
  }
  std::vector<DLTensor> in, out;
  for (Tensor& t : inputs) in.push_back(t.view());
  for (Tensor& t : outputs) out.push_back(t.view());
  check(api().run(context.get(), in.data(), static_cast<int32_t>(in.size()), out.data(),
                  static_cast<int32_t>(out.size())));

  for (Tensor& t : outputs) {
    if (!t.is_f32()) continue;
    double sum = 0;
    for (std::size_t i = 0; i < t.elements(); ++i) sum += t.floats()[i];
    std::printf("%s: sum %.9g\n", t.name.c_str(), sum);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: compile_cpp MODEL.onnx\n");
    return 2;
  }
  try {
    tilewright::CompileOptions
        options;  // options.target = "cpu:x86-64-v3"; options.entries[0].shapes["x"] = {8, 64}; ..
    const tilewright::CompileResult result = tilewright::compile_file(argv[1], options);
    std::printf("compiled for %s: %lld groups, %zu bytes\n", result.report.target.c_str(),
                static_cast<long long>(result.report.groups), result.artefact.size);
    run(result.artefact);
    return 0;
  } catch (const tilewright::Error& error) {
    std::fprintf(stderr, "compile_cpp: %s\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "compile_cpp: %s\n", error.what());
    return 1;
  }
}
