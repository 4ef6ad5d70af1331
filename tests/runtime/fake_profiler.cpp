// A tool that ranges of NVTX go to, linked into the program.
#ifdef TW_RUNTIME_CUDA
#define NVTX_NO_IMPL
#include "tests/runtime/fake_profiler.h"

#include <nvtx3/nvToolsExt.h>

namespace tw::test {
std::vector<std::string> ranges;

namespace {

int push(nvtxDomainHandle_t, const nvtxEventAttributes_t* event) {
  ranges.emplace_back(event->message.ascii);
  return 0;
}

int pop(nvtxDomainHandle_t) {
  ranges.emplace_back("end");
  return 0;
}

int attach(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) != 1) return 0;
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}

}  // namespace
}  // namespace tw::test

extern "C" NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr;
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = tw::test::attach;
#endif
