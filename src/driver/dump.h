// IR dumps: one numbered file after every pass.
#pragma once
#include <string>
#include <string_view>

namespace tw::driver {

class Dumper {
 public:
  /// An empty directory name switches dumping off. Creates the directory; UsageError when that fails.
  explicit Dumper(std::string directory);
  /// A dumper into the folder `name` inside this one's.
  Dumper inside(const std::string& name) const { return Dumper(enabled() ? directory_ + "/" + name : ""); }
  bool enabled() const { return !directory_.empty(); }
  /// Writes DIRECTORY/NNN_<phase>_<pass>.txt.
  void write(std::string_view phase, std::string_view pass, const std::string& text);

 private:
  std::string directory_;
  int number_ = 0;
};

}  // namespace tw::driver
