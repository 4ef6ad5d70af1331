// tilewright sign MODEL.tw --key KEY.pem
#include "runtime/format/container.h"
#include "runtime/format/signature.h"
#include "support/error.h"
#include "tilewright/verb.h"

namespace tw::cli {
namespace {

int sign(const GlobalOptions& global, const VerbOptions& options) {
  if (options.key.empty())
    throw UsageError("--key is required: \"openssl genpkey -algorithm ed25519 -out key.pem\" makes one");
  const std::string& output = options.signed_output.empty() ? options.model : options.signed_output;
  keep_input(options.key, output);
  const std::vector<uint8_t> bytes = read_file(options.model);
  const format::Artefact artefact = parse_artefact(options.model, bytes);
  const format::Signature made = format::sign(bytes, options.key);
  const std::vector<uint8_t> signature = format::to_bytes(made);
  std::vector<format::Section> sections;
  for (const format::Section& section : artefact.sections()) {
    if (section.name != "manifest" && section.name != format::kSignatureSection) sections.push_back(section);
  }
  sections.push_back({std::string(format::kSignatureSection), signature});
  format::write_artefact(output, artefact.manifest(), sections);
  if (global.json) {
    print_json("tilewright.sign.v1", {{"output", output}, {"key", format::to_text(made.key)}});
  } else {
    say(global, fmt::format("{} is signed; who trusts the key {} loads it", output, format::to_text(made.key)));
  }
  return kOk;
}

}  // namespace

void add_sign(Application& application) {
  add_verb(application, {"sign",
                         "Example: tilewright sign resnet50.tw --key key.pem\n\nSigns a compiled model for those who "
                         "trust your key.",
                         "MODEL", "Artefact (.tw)", sign});
}

}  // namespace tw::cli
