#include "codegen/cuda/nvrtc.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>

#include "codegen/cuda/fatbin.h"

namespace tw::codegen {
namespace {

// The part of NVRTC's C interface that is used; its functions return 0 on success.
constexpr int kOutOfMemory = 1;
using NvrtcProgram = void*;
struct Nvrtc {
  int (*version)(int* major, int* minor) = nullptr;
  int (*create)(NvrtcProgram*, const char* source, const char* name, int headers, const char* const*,
                const char* const*) = nullptr;
  int (*compile)(NvrtcProgram, int options, const char* const*) = nullptr;
  int (*log_size)(NvrtcProgram, size_t*) = nullptr;
  int (*log)(NvrtcProgram, char*) = nullptr;
  int (*cubin_size)(NvrtcProgram, size_t*) = nullptr;
  int (*cubin)(NvrtcProgram, char*) = nullptr;
  int (*ptx_size)(NvrtcProgram, size_t*) = nullptr;
  int (*ptx)(NvrtcProgram, char*) = nullptr;
  int (*destroy)(NvrtcProgram*) = nullptr;
};

void* open_library() {
  const char* chosen = std::getenv("TW_NVRTC");
  if (chosen != nullptr) return dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
  constexpr std::array<const char*, 4> kNames = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                                 "/usr/local/cuda/lib64/libnvrtc.so"};
  for (const char* name : kNames) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Result<Nvrtc> load_nvrtc() {
  void* library = open_library();
  if (library == nullptr) return declined("NVRTC (libnvrtc.so) is not installed; set TW_NVRTC to its path");
  Nvrtc api;
  const bool complete =
      find(library, "nvrtcVersion", api.version) && find(library, "nvrtcCreateProgram", api.create) &&
      find(library, "nvrtcCompileProgram", api.compile) && find(library, "nvrtcGetProgramLogSize", api.log_size) &&
      find(library, "nvrtcGetProgramLog", api.log) && find(library, "nvrtcGetCUBINSize", api.cubin_size) &&
      find(library, "nvrtcGetCUBIN", api.cubin) && find(library, "nvrtcGetPTXSize", api.ptx_size) &&
      find(library, "nvrtcGetPTX", api.ptx) && find(library, "nvrtcDestroyProgram", api.destroy);
  if (!complete) return declined("the NVRTC found here is too old: it gives no cubins");
  return api;
}

const Result<Nvrtc>& nvrtc() {
  static const Result<Nvrtc> api = load_nvrtc();
  return api;
}

// What one pair of NVRTC's functions gives of a program.
template <typename Result>
Result read(NvrtcProgram program, int (*read_size)(NvrtcProgram, size_t*), int (*read_all)(NvrtcProgram, char*)) {
  size_t size = 0;
  read_size(program, &size);
  Result out(size, typename Result::value_type());
  if (size > 0) read_all(program, reinterpret_cast<char*>(out.data()));
  return out;
}

// The cubin, and for GPUs that come later the PTX beside it. The size of a text counts its end.
std::vector<std::byte> read_code(const Nvrtc& api, NvrtcProgram program, const std::string& architecture) {
  auto cubin = read<std::vector<std::byte>>(program, api.cubin_size, api.cubin);
  if (!is_portable(architecture)) return cubin;
  const auto ptx = read<std::string>(program, api.ptx_size, api.ptx);
  return make_fatbin(cubin, ptx.c_str(), architecture);
}

const Nvrtc& require_nvrtc() {
  if (!nvrtc().ok()) throw Unsupported("CUDA code generation: {}", nvrtc().reason());
  return *nvrtc();
}

std::array<std::string, 3> options_for(const std::string& architecture) {
  return {"--gpu-architecture=" + architecture, "--fmad=false", "--std=c++17"};
}

}  // namespace

Result<bool> nvrtc_available() {
  if (nvrtc().ok()) return true;
  return Reason{nvrtc().reason()};
}

std::string describe_compilation(const std::string& architecture) {
  int major = 0, minor = 0;
  require_nvrtc().version(&major, &minor);
  return fmt::format("NVRTC {}.{} {}{}", major, minor, fmt::join(options_for(architecture), " "),
                     is_portable(architecture) ? ", a fatbin with PTX" : "");
}

std::vector<std::byte> compile_cubin(const std::string& source, const std::string& architecture) {
  const Nvrtc& api = require_nvrtc();
  NvrtcProgram program = nullptr;
  TW_CHECK(api.create(&program, source.c_str(), "tilewright.cu", 0, nullptr, nullptr) == 0, "nvrtcCreateProgram");
  const auto texts = options_for(architecture);
  const std::array<const char*, 3> options = {texts[0].c_str(), texts[1].c_str(), texts[2].c_str()};
  const int status = api.compile(program, static_cast<int>(options.size()), options.data());
  const auto log = read<std::string>(program, api.log_size, api.log);
  std::vector<std::byte> cubin;
  if (status == 0) cubin = read_code(api, program, architecture);
  api.destroy(&program);
  if (status == kOutOfMemory || log.find("out of memory") != std::string::npos)
    throw ResourceError("NVRTC is out of memory");
  TW_CHECK(status == 0 && !cubin.empty(), "NVRTC does not compile a generated kernel for {}:\n{}", architecture, log);
  return cubin;
}

}  // namespace tw::codegen
