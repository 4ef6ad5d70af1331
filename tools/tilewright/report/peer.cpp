#include "tilewright/report/peer.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "support/child_process.h"
#include "support/text.h"
#include "tilewright/command.h"

namespace tw::cli {
namespace {

using artefact::report::Latency;
using artefact::report::Peer;

// Its standard input is our socket; what it says goes there as one JSON document. Inputs are as random_array makes them
// in kind, not in value: the time does not depend on them.
constexpr const char* kScript = R"py(
import json, os, sys, time
def say(document):
    os.write(0, json.dumps(document).encode())
    sys.exit(0)
try:
    import numpy as np
    import onnxruntime as ort
except ImportError as error:
    say({"error": f"Python cannot import what it needs: {error}"})
task = json.loads(sys.argv[1])
try:
    options = ort.SessionOptions()
    options.intra_op_num_threads = task["threads"]
    session = ort.InferenceSession(task["model"], options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    feeds = {}
    for name, (kind, shape) in task["inputs"].items():
        values = random.uniform(-1, 1, shape) if kind.startswith("f") else random.integers(0, 2, shape)
        names = {"f": "float", "i": "int", "u": "uint"}
        feeds[name] = np.asarray(values, np.bool_ if kind == "bool" else np.dtype(names[kind[0]] + kind[1:]))
    until = time.perf_counter() + task["warm_up_s"]
    session.run(None, feeds)
    while time.perf_counter() < until:
        session.run(None, feeds)
    times = []
    until = time.perf_counter() + task["duration_s"]
    while time.perf_counter() < until or len(times) < task["iterations"]:
        start = time.perf_counter()
        session.run(None, feeds)
        times.append(1e3 * (time.perf_counter() - start))
    p10, median = np.percentile(times, [10, 50])
    say({"engine": f"onnxruntime {ort.__version__}",
         "latency_ms": {"p10": p10, "median": median, "mean": sum(times) / len(times), "n": len(times)}})
except Exception as error:
    say({"error": f"{type(error).__name__}: {error}"})
)py";

// All that the child says until it ends or `seconds` are over.
std::string listen(const ChildProcess& child, double seconds) {
  std::string text;
  std::array<char, 4096> part;
  for (const double until = now_seconds() + seconds; now_seconds() < until;) {
    pollfd wait{child.channel(), POLLIN, 0};
    if (poll(&wait, 1, 100) <= 0) continue;
    const ssize_t count = read(child.channel(), part.data(), part.size());
    if (count == 0 || (count < 0 && errno != EINTR)) break;
    if (count > 0) text.append(part.data(), static_cast<size_t>(count));
  }
  return text;
}

Latency latency_of(const nlohmann::json& document) {
  const nlohmann::json& ms = document.at("latency_ms");
  return {ms.at("p10").get<double>(), ms.at("median").get<double>(), ms.at("mean").get<double>(),
          ms.at("n").get<int64_t>(), ""};
}

Result<Peer> run_onnxruntime(const VerbOptions& options, const std::vector<artefact::NamedType>& inputs, int threads) {
  if (options.model.ends_with(".tw"))
    return declined(
        "onnxruntime needs the ONNX model: give MODEL.onnx instead of the artefact, or a JSON file to --peer");
  nlohmann::json shapes = nlohmann::json::object();
  for (const artefact::NamedType& input : inputs) shapes[input.name] = {to_string(input.type.type), input.type.shape};
  const nlohmann::json task = {{"model", options.model},
                               {"threads", threads},
                               {"inputs", shapes},
                               {"warm_up_s", options.warm_up_ms / 1e3},
                               {"duration_s", options.duration_s},
                               {"iterations", options.iterations}};
  const Result<ChildProcess> child = ChildProcess::start({"python3", "-c", kScript, task.dump()});
  if (!child.ok()) return declined("python3 cannot be started: {}", child.reason());
  constexpr double kPatience = 120;  // s: to import the package, and for slow models
  const nlohmann::json answer =
      nlohmann::json::parse(listen(*child, options.duration_s * 4 + kPatience), nullptr, false);
  if (!answer.is_object()) return declined("onnxruntime gave no answer");
  if (answer.contains("error"))
    return declined("onnxruntime did not run: {} (pip install onnxruntime; python3 of PATH is used)",
                    answer["error"].get<std::string>());
  return Peer{answer.at("engine").get<std::string>(), latency_of(answer),
              fmt::format("Run in a process of its own between two measurements of this artefact, with {}, {:g} ms "
                          "warm-up, then {:g} s.",
                          count_text(threads, "thread"), options.warm_up_ms, options.duration_s)};
}

Result<Peer> read_peer(const std::string& file) {
  const std::vector<uint8_t> bytes = read_file(file);
  const nlohmann::json document = nlohmann::json::parse(bytes, nullptr, false);
  try {
    if (document.at("latency_ms").at("p10").get<double>() <= 0)
      throw UsageError("--peer '{}': the latency p10 is {}, expected more than 0", file,
                       document["latency_ms"]["p10"].get<double>());
    std::string name = document.at(document.contains("engine") ? "engine" : "model").get<std::string>();
    return Peer{std::move(name), latency_of(document), fmt::format("From {}: measured at another time.", file)};
  } catch (const nlohmann::json::exception&) {
    throw UsageError(
        "--peer '{}' has no latency: expected what `tilewright bench --json` prints, "
        "{{\"model\": \"..\", \"latency_ms\": {{\"p10\": .., \"median\": .., \"mean\": .., \"n\": ..}}}}",
        file);
  }
}

}  // namespace

Result<Peer> measure_peer(const VerbOptions& options, const std::vector<artefact::NamedType>& inputs, int threads) {
  if (options.peer == "onnxruntime") return run_onnxruntime(options, inputs, threads);
  if (!options.peer.ends_with(".json"))
    throw UsageError("--peer '{}': expected onnxruntime or a file that ends in .json", options.peer);
  return read_peer(options.peer);
}

}  // namespace tw::cli
