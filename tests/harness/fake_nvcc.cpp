#include "tests/harness/fake_nvcc.h"

#include <fstream>

namespace tw {

namespace fs = std::filesystem;

int64_t FakeNvcc::runs() const {
  std::ifstream file(folder / "runs");
  int64_t lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
}

void FakeNvcc::write(const Behaviour& behaviour) const {
  fs::create_directories(headers() / "cutlass");
  std::ofstream(headers() / "cutlass" / "cutlass.h") << "// none\n";
  const fs::path script = folder / "nvcc.new";  // one that runs stays as it is
  std::ofstream(script) << "#!/bin/sh\n[ \"$1\" = --version ] && { echo release " << behaviour.version
                        << "; exit; }\necho run >> " << (folder / "runs").string() << "\n"
                        << behaviour.first << R"(
while [ $# -gt 0 ]; do
  case $1 in --keep-dir) keep=$2 ;; -o) out=$2 ;; esac
  shift
done
echo "ptxas info: Used 168 registers"
echo cubin > $keep/kernel.cubin
echo fatbin > $keep/kernel.fatbin
cat > $out <<'END'
)" << behaviour.program << "END\nchmod 755 $out\n";
  fs::permissions(script, fs::perms::owner_all | fs::perms::group_read | fs::perms::others_read);
  fs::rename(script, path());
}

}  // namespace tw
