// The latency of another engine, for reports.
#pragma once
#include "artefact/report/report.h"
#include "artefact/session.h"
#include "tilewright/verb_options.h"

namespace tw::cli {

/// What --peer names: onnxruntime runs the ONNX model options.model in its Python package, on seeded inputs of the
/// types and shapes of `inputs`, by the protocol of bench; or the latency in a JSON file of bench --json. Declines
/// where the package or the model is not there; UsageError for a file without a latency.
Result<artefact::report::Peer> measure_peer(const VerbOptions& options, const std::vector<artefact::NamedType>& inputs,
                                            int threads);

}  // namespace tw::cli
