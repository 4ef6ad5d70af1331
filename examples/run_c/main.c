/* run_c MODEL.tw: loads an artefact, fills its f32 inputs with 0, 1, .., 6, 0, 1, .., runs it, and prints the sum of
 * every f32 output. */
#include <stdio.h>
#include <stdlib.h>
#include <tilewright/runtime.h>

enum { kMaxTensors = 16 };

static const TwApi* api;

/* Ends the program when `status` is a failure, with the exit code that the command line has for it. */
static void check(TwStatus* status) {
  if (status == NULL) return;
  const int code = api->status_exit_code(status);
  fprintf(stderr, "run_c: %s\n", api->status_message(status));
  api->status_free(status);
  exit(code);
}

static int64_t elements(const DLTensor* tensor) {
  int64_t count = 1;
  for (int32_t d = 0; d < tensor->ndim; ++d) count *= tensor->shape[d];
  return count;
}

/* A tensor of the type and shape that `info` names, with memory of its own. */
static DLTensor make_tensor(const TwTensorInfo* info) {
  DLTensor tensor = {0};
  tensor.device.device_type = kDLCPU;
  tensor.ndim = info->ndim;
  tensor.dtype = info->dtype;
  tensor.shape = (int64_t*)info->shape; /* of the model, which outlives the tensor */
  tensor.data = calloc((size_t)elements(&tensor) + 1, (info->dtype.bits + 7u) / 8u);
  if (tensor.data == NULL) exit(6);
  return tensor;
}

static int is_f32(const DLTensor* tensor) { return tensor->dtype.code == kDLFloat && tensor->dtype.bits == 32; }

static void fill(DLTensor* tensor) {
  if (!is_f32(tensor)) return;
  for (int64_t i = 0; i < elements(tensor); ++i) ((float*)tensor->data)[i] = (float)(i % 7);
}

static double sum(const DLTensor* tensor) {
  double total = 0;
  for (int64_t i = 0; i < elements(tensor); ++i) total += ((const float*)tensor->data)[i];
  return total;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: run_c MODEL.tw\n");
    return 2;
  }
  api = tw_get_api(TW_API_VERSION);
  if (api == NULL) {
    fprintf(stderr, "run_c: libtilewright_rt is older than this program\n");
    return 5;
  }
  TwModel* model = NULL;
  TwContext* context = NULL;
  check(api->model_load_file(argv[1], NULL, &model)); /* verifies every byte before any code is mapped */
  check(api->context_create(model, NULL, &context));  /* memory and threads for one calling thread */

  DLTensor inputs[kMaxTensors];
  DLTensor outputs[kMaxTensors];
  const char* names[kMaxTensors];
  const int32_t input_count = api->input_count(model);
  const int32_t output_count = api->output_count(model);
  if (input_count > kMaxTensors || output_count > kMaxTensors) return 1;
  for (int32_t i = 0; i < input_count; ++i) {
    TwTensorInfo info = {.struct_size = sizeof(info)};
    check(api->input_info(model, 0, i, &info));
    inputs[i] = make_tensor(&info);
    fill(&inputs[i]);
  }
  for (int32_t i = 0; i < output_count; ++i) {
    TwTensorInfo info = {.struct_size = sizeof(info)};
    check(api->output_info(model, 0, i, &info));
    outputs[i] = make_tensor(&info);
    names[i] = info.name;
  }

  check(api->run(context, inputs, input_count, outputs, output_count));
  for (int32_t i = 0; i < output_count; ++i) {
    if (is_f32(&outputs[i])) printf("%s: sum %.9g\n", names[i], sum(&outputs[i]));
  }

  for (int32_t i = 0; i < input_count; ++i) free(inputs[i].data);
  for (int32_t i = 0; i < output_count; ++i) free(outputs[i].data);
  api->context_free(context);
  api->model_free(model);
  return 0;
}
