// NVRTC for tests: the cubin of a text is "cubin of " and the text, unless a word in it asks for something else, or is
// that of $TW_FAKE_NVRTC_REJECT; it hangs at that of $TW_FAKE_NVRTC_HANG. Every compilation appends a line to
// $TW_FAKE_NVRTC_LOG.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace {

struct Program {
  std::string source;
  std::string cubin;
};

bool has(const Program& p, const char* word) { return p.source.find(word) != std::string::npos; }
// Emitted texts say "changed" and the like, and ask for nothing.
bool asks(const Program& p, const char* word) { return has(p, word) && !has(p, "__global__"); }

// Whether the file $TW_FAKE_NVRTC_LOG.killed is there; makes it.
bool was_killed_before() {
  const std::string mark = std::string(std::getenv("TW_FAKE_NVRTC_LOG")) + ".killed";
  const bool was = std::ifstream(mark).good();
  std::ofstream(mark) << "yes";
  return was;
}

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
  *major = 13, *minor = 0;
  return 0;
}

int nvrtcCreateProgram(Program** program, const char* source, const char*, int, const char* const*,
                       const char* const*) {
  *program = new Program{source, ""};
  return 0;
}

int nvrtcCompileProgram(Program* program, int, const char* const*) {
  if (const char* log = std::getenv("TW_FAKE_NVRTC_LOG")) std::ofstream(log, std::ios::app) << program->source + "\n";
  const char* rejected = std::getenv("TW_FAKE_NVRTC_REJECT");
  if (rejected != nullptr && has(*program, rejected)) return 6;  // NVRTC_ERROR_COMPILATION
  const char* hanging = std::getenv("TW_FAKE_NVRTC_HANG");
  while (hanging != nullptr && has(*program, hanging)) pause();
  if (asks(*program, "crash")) {
    signal(SIGSEGV, SIG_DFL);  // a sanitizer would make an exit of it
    raise(SIGSEGV);
  }
  if (asks(*program, "kill always")) raise(SIGKILL);
  if (asks(*program, "kill once") && !was_killed_before()) raise(SIGKILL);
  if (asks(*program, "end")) raise(SIGTERM);
  if (asks(*program, "out of memory")) return 1;
  if (asks(*program, "hang")) {
    for (;;) pause();
  }
  if (asks(*program, "sleep")) usleep(300'000);
  if (asks(*program, "wrong")) return 6;
  program->cubin = "cubin of " + program->source;
  return 0;
}

int nvrtcGetProgramLogSize(Program*, size_t* size) {
  *size = 13;
  return 0;
}

int nvrtcGetProgramLog(Program*, char* log) {
  std::memcpy(log, "line 7: wrong", 13);
  return 0;
}

int nvrtcGetCUBINSize(Program* program, size_t* size) {
  *size = program->cubin.size();
  return 0;
}

int nvrtcGetCUBIN(Program* program, char* cubin) {
  std::memcpy(cubin, program->cubin.data(), program->cubin.size());
  return 0;
}

int nvrtcGetPTXSize(Program*, size_t* size) {
  *size = 13;
  return 0;
}

int nvrtcGetPTX(Program*, char* ptx) {
  std::memcpy(ptx, ".version 9.0", 13);
  return 0;
}

int nvrtcDestroyProgram(Program** program) {
  delete *program;
  return 0;
}
}
