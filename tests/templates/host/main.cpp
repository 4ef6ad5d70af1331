// The host program (src/templates/cutlass/host.cu) of a template that is none: the first size of a problem says which
// parameters it makes.
#include <new>

#include "templates/cutlass/host.cu"

namespace tw {
namespace {

enum Case {
  kGood,
  kRefuses,
  kHalfAddress,
  kOtherOperand,
  kLinesWithGaps,
  kOtherSwizzle,
  kNoOperand,
  kInside,
  kWindows
};

struct Params {
  unsigned long long constant, inside, whole;
  CUtensorMap map;
  char end;
};

void describe(CUtensorMap* map, Case which, unsigned long long address) {
  const auto type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  const cuuint64_t shape[] = {768, 1280, 1}, strides[] = {which == kLinesWithGaps ? 1600u : 1536u, 1966080};
  const cuuint32_t box[] = {64, 128, 1}, steps[] = {1, 1, 1};
  if (which == kWindows) {
    const cuuint64_t image[] = {64, 28, 28, 2}, image_strides[] = {128, 3584, 100352};
    const cuuint32_t pixel_steps[] = {1, 1, 2, 1};
    const int from[] = {-1, -1}, to[] = {-1, -1};
    cuTensorMapEncodeIm2col(map, type, 4, reinterpret_cast<void*>(address), image, image_strides, from, to, 64, 128,
                            pixel_steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                            CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return;
  }
  const auto swizzle = which == kOtherSwizzle ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B;
  cuTensorMapEncodeTiled(map, type, 3, reinterpret_cast<void*>(address), shape, strides, box, steps,
                         CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                         CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

}  // namespace

Answer instantiate(const Problem& problem) {
  const auto which = static_cast<Case>(problem.sizes[0]);
  if (which == kRefuses) return refused("lines are not aligned");
  Answer answer;
  answer.grid[0] = 4;
  answer.block[0] = 384;
  answer.shared_bytes = 1000;
  answer.params = bytes_of_params<Params>([&](void* place) {
    auto* params = new (place) Params;  // what lies between its members is not written
    const bool other = which == kOtherOperand && problem.a == kWorlds[1];
    params->constant = which == kHalfAddress ? problem.a >> 1 : 7;
    params->inside = problem.b + 24;
    params->whole = other ? problem.b : problem.a;
    params->end = 3;
    describe(&params->map, which, which == kNoOperand ? 0 : problem.d + (which == kInside ? 16 : 0));
  });
  return answer;
}

}  // namespace tw
