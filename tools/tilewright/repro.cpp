#include "tilewright/repro.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "support/hash.h"
#include "tilewright/version.h"

namespace tw::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNameDigits = 12;  // of the hash that names the folder

// `word` with the file that it names, whole or after "=@" or "=", copied into `folder` and named as it is there.
std::string copy_named_file(const std::string& word, const fs::path& folder) {
  for (const std::string_view mark : {"", "=@", "="}) {
    const size_t at = mark.empty() ? 0 : word.find(mark);
    if (at == std::string::npos) continue;
    const fs::path file = word.substr(at + mark.size());
    std::error_code code;
    if (!fs::is_regular_file(file, code)) continue;
    fs::copy_file(file, folder / file.filename(), fs::copy_options::overwrite_existing, code);
    return word.substr(0, at + mark.size()) + file.filename().string();
  }
  return word;
}

std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:@,+";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string write(std::span<const std::string> command, std::string_view message) {
  std::string text;
  for (const std::string& word : command) text += word + "\n";
  const fs::path folder = fs::path("repro") / content_hash(text + std::string(message)).substr(0, kNameDigits);
  fs::create_directories(folder);
  std::string line = "tilewright";
  for (const std::string& word : command) line += " " + quoted(copy_named_file(word, folder));
  std::ofstream file(folder / "command.txt");
  file << fmt::format("{}\n{}\n{}\n", kVersionText, message, line) << std::flush;
  return file ? folder.string() : "";
}

}  // namespace

std::string write_repro(std::span<const std::string> command, std::string_view message) noexcept {
  try {
    return write(command, message);
  } catch (...) {
    return "";
  }
}

}  // namespace tw::cli
