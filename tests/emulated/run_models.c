/* run_models LIST: runs artefacts one after the other. Each line of LIST is "MODEL.tw FOLDER": inputs are the bytes of
 * FOLDER/in0, in1, .., in the model's order and of its first entry's shapes; outputs become FOLDER/out0, out1, ..; why
 * a model did not run becomes FOLDER/error. Exit code 1 where one did not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tilewright/runtime.h>

enum { kMaxTensors = 64, kLine = 4096 };

static const TwApi* api;

static size_t bytes_of(const DLTensor* tensor) {
  size_t count = 1;
  for (int32_t d = 0; d < tensor->ndim; ++d) count *= (size_t)tensor->shape[d];
  return count * ((tensor->dtype.bits + 7u) / 8u);
}

static DLTensor make_tensor(const TwTensorInfo* info) {
  DLTensor tensor = {0};
  tensor.device.device_type = kDLCPU;
  tensor.ndim = info->ndim;
  tensor.dtype = info->dtype;
  tensor.shape = (int64_t*)info->shape; /* of the model, which outlives the tensor */
  tensor.data = calloc(bytes_of(&tensor) + 1, 1);
  return tensor;
}

static FILE* open_part(const char* folder, const char* kind, int32_t number, const char* mode) {
  char path[kLine + 32];
  if (number < 0)
    snprintf(path, sizeof path, "%s/%s", folder, kind);
  else
    snprintf(path, sizeof path, "%s/%s%d", folder, kind, (int)number);
  return fopen(path, mode);
}

/* 0 where `status` is none; else its sentence is in FOLDER/error. */
static int failed(TwStatus* status, const char* folder) {
  if (status == NULL) return 0;
  FILE* file = open_part(folder, "error", -1, "w");
  if (file != NULL) fprintf(file, "%s\n", api->status_message(status)), fclose(file);
  api->status_free(status);
  return 1;
}

static int move_bytes(DLTensor* tensor, const char* folder, const char* kind, int32_t number, int is_input) {
  FILE* file = open_part(folder, kind, number, is_input ? "rb" : "wb");
  const size_t bytes = bytes_of(tensor);
  if (file == NULL) return 1;
  const size_t moved = is_input ? fread(tensor->data, 1, bytes, file) : fwrite(tensor->data, 1, bytes, file);
  fclose(file);
  return moved != bytes;
}

static int run_model(const char* path, const char* folder) {
  TwModel* model = NULL;
  TwContext* context = NULL;
  DLTensor inputs[kMaxTensors], outputs[kMaxTensors];
  if (failed(api->model_load_file(path, NULL, &model), folder)) return 1;
  int bad = failed(api->context_create(model, NULL, &context), folder);
  const int32_t input_count = api->input_count(model), output_count = api->output_count(model);
  if (bad || input_count > kMaxTensors || output_count > kMaxTensors) return 1;
  for (int32_t i = 0; i < input_count + output_count; ++i) {
    TwTensorInfo info = {.struct_size = sizeof(info)};
    const int is_input = i < input_count;
    bad |= failed(is_input ? api->input_info(model, 0, i, &info) : api->output_info(model, 0, i - input_count, &info),
                  folder);
    *(is_input ? &inputs[i] : &outputs[i - input_count]) = make_tensor(&info);
  }
  for (int32_t i = 0; i < input_count; ++i) bad |= move_bytes(&inputs[i], folder, "in", i, 1);
  if (!bad) bad = failed(api->run(context, inputs, input_count, outputs, output_count), folder);
  for (int32_t i = 0; i < output_count && !bad; ++i) bad = move_bytes(&outputs[i], folder, "out", i, 0);
  for (int32_t i = 0; i < input_count; ++i) free(inputs[i].data);
  for (int32_t i = 0; i < output_count; ++i) free(outputs[i].data);
  api->context_free(context);
  api->model_free(model);
  return bad;
}

int main(int argc, char** argv) {
  api = tw_get_api(TW_API_VERSION);
  FILE* list = argc == 2 ? fopen(argv[1], "r") : NULL;
  if (api == NULL || list == NULL) {
    fprintf(stderr, "usage: run_models LIST\n");
    return 2;
  }
  static char line[2 * kLine];
  int bad = 0;
  while (fgets(line, sizeof line, list) != NULL) {
    const char* path = strtok(line, " \n");
    const char* folder = strtok(NULL, " \n");
    if (path != NULL && folder != NULL) bad |= run_model(path, folder);
  }
  fclose(list);
  return bad;
}
