// train_cpp MODEL.train.tw STATE.safetensors STEPS: trains what `tilewright train MODEL.onnx --loss mse` made on one
// batch of made-up numbers, STEPS steps from where STATE.safetensors ended, or from the beginning where there is no
// such file. Prints the loss before and after, and saves the state.
#include <tilewright/runtime.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
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
  void operator()(TwState* state) const { api().state_free(state); }
};

// f32 numbers under the name of an input or output.
struct Tensor {
  explicit Tensor(const TwTensorInfo& info) : shape(info.shape, info.shape + info.ndim), dtype(info.dtype) {
    if (dtype.code != kDLFloat || dtype.bits != 32) throw std::runtime_error(std::string(info.name) + " is not f32");
    std::size_t count = 1;
    for (const int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    for (std::size_t i = 0; i < count; ++i) numbers.push_back(static_cast<float>(i % 7) / 7);
  }
  DLTensor view() {
    return {numbers.data(), {kDLCPU, 0}, static_cast<int32_t>(shape.size()), dtype, shape.data(), nullptr, 0};
  }

  std::vector<int64_t> shape;
  DLDataType dtype;
  std::vector<float> numbers;
};

// A function of the artefact: arrays for its inputs and outputs, which run() reads and writes.
class Function {
 public:
  Function(const TwModel* model, TwContext* context, const char* name) : context_(context) {
    check(api().find_function(model, name, &number_));
    TwFunctionInfo function{};
    function.struct_size = sizeof(function);
    check(api().function_info(model, number_, &function));
    TwTensorInfo info{};
    info.struct_size = sizeof(info);
    for (int32_t i = 0; i < function.input_count; ++i) {
      check(api().input_info(model, function.first_entry, i, &info));
      add(info, in_);
    }
    for (int32_t i = 0; i < function.output_count; ++i) {
      check(api().output_info(model, function.first_entry, i, &info));
      add(info, out_);
    }
  }
  void run() {
    check(api().run_function(context_, number_, in_.data(), static_cast<int32_t>(in_.size()), out_.data(),
                             static_cast<int32_t>(out_.size())));
  }
  float& number(const std::string& name) { return tensors_.at(name)->numbers.at(0); }

 private:
  void add(const TwTensorInfo& info, std::vector<DLTensor>& list) {
    std::unique_ptr<Tensor>& tensor = tensors_[info.name];
    tensor = std::make_unique<Tensor>(info);
    list.push_back(tensor->view());
  }

  TwContext* context_;
  int32_t number_ = 0;
  std::map<std::string, std::unique_ptr<Tensor>> tensors_;
  std::vector<DLTensor> in_, out_;
};

void train(const char* artefact, const char* saved, int steps) {
  TwModel* loaded = nullptr;
  check(api().model_load_file(artefact, nullptr, &loaded));
  const std::unique_ptr<TwModel, Free> model(loaded);
  TwContext* created = nullptr;
  check(api().context_create(model.get(), nullptr, &created));
  const std::unique_ptr<TwContext, Free> context(created);
  TwState* shared = nullptr;
  check(api().context_state(context.get(), &shared));
  const std::unique_ptr<TwState, Free> state(shared);
  if (std::filesystem::exists(saved)) check(api().state_load(state.get(), saved));

  Function step(model.get(), context.get(), "step"), evaluation(model.get(), context.get(), "eval");
  evaluation.run();
  const float before = evaluation.number("loss");
  step.number("learning_rate") = 0.01F;
  for (int t = 0; t < steps; ++t) step.run();
  evaluation.run();  // on the state that the steps left
  std::printf("loss %.9g -> %.9g\n", before, evaluation.number("loss"));
  check(api().state_save(state.get(), saved));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: train_cpp MODEL.train.tw STATE.safetensors STEPS\n");
    return 2;
  }
  try {
    train(argv[1], argv[2], std::atoi(argv[3]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_cpp: %s\n", error.what());
    return 1;
  }
  return 0;
}
