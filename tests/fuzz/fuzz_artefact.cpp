// Fuzzes the artefact loader: whatever the bytes, loading (and the queries on what was loaded) returns or fails with a
// status; anything else is a bug. Mutations of a compiled model are made from (seed, iteration) alone; most get correct
// hashes again, so that they reach the checks behind them:
//   fuzz_artefact [--seconds N] [--seed S] [--iteration I]
// TW_FUZZ_SECONDS says how long (default 5). Nothing that loads is run: its code may be altered. A failure prints the
// iteration; --iteration I runs that one again.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "artefact/session.h"
#include "runtime/format/container_layout.h"
#include "tests/driver/small_model.h"
#include "tests/fuzz/search.h"

namespace tw::fuzz {
namespace {

using Random = std::mt19937_64;
using Bytes = std::vector<uint8_t>;

uint64_t pick(Random& random, uint64_t count) { return count == 0 ? 0 : random() % count; }

// A section of a well-formed file.
struct Row {
  size_t at = 0;  // of its row in the table
  uint64_t offset = 0;
  uint64_t size = 0;
};

std::vector<Row> rows_of(const Bytes& file) {
  std::vector<Row> rows;
  const auto count = format::load<uint32_t>(file, format::kSectionCountAt);
  for (size_t i = 0; i < count; ++i) {
    const size_t at = format::kTableAt + i * format::kRowBytes;
    rows.push_back({at, format::load<uint64_t>(file, at + format::kRowOffsetAt),
                    format::load<uint64_t>(file, at + format::kRowSizeAt)});
  }
  return rows;
}

void put_hash(Bytes& file, size_t at, const format::Hash& hash) {
  std::copy(hash.begin(), hash.end(), file.begin() + static_cast<std::ptrdiff_t>(at));
}

// Hashes that fit the bytes again, for the sections that still lie inside the file.
void rehash(Bytes& file, const std::vector<Row>& rows) {
  const std::span<const uint8_t> all(file);
  for (const Row& row : rows) {
    if (row.offset <= file.size() && row.size <= file.size() - row.offset)
      put_hash(file, row.at + format::kRowHashAt, format::blake3({all.subspan(row.offset, row.size)}));
  }
  const size_t table = rows.size() * format::kRowBytes;
  put_hash(file, format::kRootHashAt,
           format::blake3({all.first(format::kHashedHeaderBytes), all.subspan(format::kTableAt, table)}));
}

void flip_bits(Bytes& file, Random& random, size_t begin, size_t size) {
  for (uint64_t n = 1 + pick(random, 4); n > 0 && size > 0; --n)
    file[begin + pick(random, size)] ^= static_cast<uint8_t>(1u << pick(random, 8));
}

// A number of the file becomes another interesting one.
void change_number(Bytes& file, Random& random, size_t at) {
  const auto old = format::load<uint64_t>(file, at);
  const uint64_t values[] = {0,
                             1,
                             old + 1,
                             old - 1,
                             old + 4096,
                             file.size(),
                             file.size() + 1,
                             uint64_t{1} << 31,
                             uint64_t{1} << 63,
                             ~uint64_t{0},
                             ~uint64_t{0} - 4095};
  format::store(file, at, values[pick(random, std::size(values))]);
}

void change_header_or_table(Bytes& file, Random& random, const std::vector<Row>& rows) {
  const Row& row = rows[pick(random, rows.size())];
  switch (pick(random, 5)) {
    case 0:
      return flip_bits(file, random, 0, format::kHashedHeaderBytes);
    case 1:
      return change_number(file, random, format::kFileSizeAt);
    case 2:
      return change_number(file, random, row.at + format::kRowOffsetAt);
    case 3:
      return change_number(file, random, row.at + format::kRowSizeAt);
    default:
      return flip_bits(file, random, row.at, format::kNameBytes);
  }
}

// The manifest's text keeps its length, so that the table stays true: digits, letters and whole numbers change.
void change_manifest(Bytes& file, Random& random, const Row& manifest) {
  const size_t begin = manifest.offset, end = manifest.offset + manifest.size;
  for (uint64_t n = 1 + pick(random, 3); n > 0; --n) {
    size_t at = begin + pick(random, manifest.size);
    const auto is_digit = [&](size_t i) { return file[i] >= '0' && file[i] <= '9'; };
    if (pick(random, 4) != 0) {
      for (size_t i = 0; i < manifest.size && !is_digit(at); ++i) at = at + 1 == end ? begin : at + 1;
      for (; at < end && is_digit(at); ++at)
        file[at] = static_cast<uint8_t>(pick(random, 2) != 0 ? '9' : '0' + pick(random, 10));
    } else {
      constexpr char kCharacters[] = "{}[],:\"-0e.\\ntf";
      file[at] = static_cast<uint8_t>(kCharacters[pick(random, sizeof(kCharacters) - 1)]);
    }
  }
}

Bytes mutated(const Bytes& original, uint64_t seed, uint64_t iteration) {
  Random random(seed * 0x9e3779b97f4a7c15ull + iteration);
  Bytes file = original;
  const std::vector<Row> rows = rows_of(file);
  // The manifest is the section of that name; names are sorted and padded with zeros.
  const auto is_manifest = [&](const Row& row) { return std::memcmp(file.data() + row.at, "manifest", 9) == 0; };
  const auto manifest = std::find_if(rows.begin(), rows.end(), is_manifest);
  const uint64_t kind = pick(random, 8);
  if (kind <= 3 && manifest != rows.end()) change_manifest(file, random, *manifest);
  if (kind == 4 || kind == 5) change_header_or_table(file, random, rows);
  if (kind == 6) flip_bits(file, random, 0, file.size());
  if (kind == 7) file.resize(pick(random, file.size()));
  if (kind != 7 && pick(random, 8) != 0) rehash(file, rows);
  return file;
}

// Loads and asks for everything that can be asked without running code.
bool loads(const Bytes& file) {
  try {
    const artefact::Session session = artefact::Session::load_memory(file, {1, false});
    session.inputs();
    session.outputs();
    session.buffer_names();
    session.initial_states();
    return true;
  } catch (const artefact::RuntimeFailure& failure) {
    if (failure.exit_code() == 5 || failure.exit_code() == 6) return false;
    throw;
  }
}

// With a state that is stored channels last.
Bytes artefact_with_state() {
  const graph::Graph model = driver::test::state_model();
  driver::CompileOptions options;
  graph::RefTensor ones = graph::RefTensor::zeros(model.value(model.inputs[0]).type);
  std::ranges::fill(ones.floats, 1.0);
  options.states = {
      {model.value(model.inputs[0]).name, model.value(model.outputs[0]).name, driver::InitialValue(ones)}};
  const driver::Compiled made = driver::compile_graph(model, options);
  if (made.manifest.states[0].order.empty()) throw std::runtime_error("the state is stored row by row");
  return driver::artefact_bytes(made);
}

// That says of the image's rows that there may be fewer.
Bytes artefact_with_extent() {
  driver::Compiled made = driver::compile_graph(driver::test::small_model(), {});
  made.manifest.entries[0].extents = {{"rows", 2, 13, {{0, 2, 1}}, {}}};
  return driver::artefact_bytes(made);
}

int run(const Arguments& arguments) {
  const Bytes originals[] = {driver::artefact_bytes(driver::compile_graph(driver::test::small_model(), {})),
                             artefact_with_state(), artefact_with_extent()};
  for (const Bytes& original : originals)
    if (!loads(original)) throw std::runtime_error("the unchanged artefact does not load");
  int64_t accepted = 0;
  const auto done = search("fuzz_artefact", arguments, [&](uint64_t iteration) {
    accepted += loads(mutated(originals[iteration % std::size(originals)], arguments.seed, iteration));
    return std::string();
  });
  if (!done) return 1;
  fmt::print("fuzz_artefact: {} inputs, {} of them loaded\n", *done, accepted);
  return 0;
}

}  // namespace
}  // namespace tw::fuzz

int main(int count, char** values) { return tw::fuzz::run(tw::fuzz::parse_arguments(count, values)); }
