// Files of the cache folder, which other compilers read and write at the same time.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace tw::driver {

/// Writes `bytes` into a file of its own first, which then takes the place of `path`: whoever reads `path` meets all or
/// nothing. Not synchronized with the disk: what a crash of the machine leaves half-written does not have the hash that
/// it must have. std::filesystem::filesystem_error when it fails.
void write_cache_file(const std::string& path, std::span<const uint8_t> bytes);

/// `path` was used now: what is unused for longest goes first. Failing changes nothing.
void touch_cache_file(const std::string& path);

}  // namespace tw::driver
