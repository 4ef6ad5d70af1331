#include "runtime/device/cuda/cudnn.h"

#include <algorithm>
#include <array>

#include "runtime/format/error.h"

namespace tw::runtime::cuda {
namespace {

using format::Activation;
using format::DataType;
using format::ErrorCode;
using format::LibraryCall;
using format::Operand;
using format::Problem;

// cudnnBackendDescriptorType_t
constexpr int kPointwise = 0, kConvolution = 1, kEngine = 2, kConfig = 3, kHeuristics = 4, kPlan = 5, kKnobChoice = 7,
              kConvolutionForward = 10, kPointwiseStep = 13, kGraph = 15, kPack = 16, kTensor = 17;
// cudnnBackendAttributeType_t
constexpr int kHandleType = 0, kDataType = 1, kBoolean = 2, kInt64 = 3, kFloat = 4, kDouble = 5, kPointer = 6,
              kConvolutionMode = 7, kHeuristicsMode = 8, kKnobType = 9, kNumericalNote = 11, kPointwiseMode = 14,
              kDescriptor = 15;
// cudnnBackendAttributeName_t
constexpr int kModeOfPointwise = 0, kMathOfPointwise = 1, kUpperClip = 4, kSlope = 5;
constexpr int kMathOfConvolution = 100, kModeOfConvolution = 101, kDilations = 102, kStrides = 103, kPadsEnd = 104,
              kPads = 105, kSpatialDims = 106;
constexpr int kModeOfHeuristics = 200, kGraphOfHeuristics = 201, kResults = 202;
constexpr int kEngineOfConfig = 300, kKnobsOfConfig = 302, kTypeOfKnob = 600, kValueOfKnob = 601;
constexpr int kHandleOfPlan = 400, kConfigOfPlan = 401, kWorkspaceOfPlan = 402;
constexpr int kForwardAlpha = 700, kForwardBeta = 701, kForwardConvolution = 702, kForwardFilters = 703,
              kForwardImages = 704, kForwardResult = 705;
constexpr int kStepPointwise = 750, kStepValue = 751, kStepOther = 752, kStepResult = 753;
constexpr int kHandleOfGraph = 800, kOperations = 801;
constexpr int kAlignmentOfTensor = 900, kTypeOfTensor = 901, kExtentsOfTensor = 902, kStridesOfTensor = 903,
              kNumberOfTensor = 906, kIsVirtual = 907;
constexpr int kPackNumbers = 1000, kPackAddresses = 1001, kPackWorkspace = 1003;
constexpr int kGraphOfEngine = 1300, kIndexOfEngine = 1301, kNotesOfEngine = 1303;

constexpr int kCrossCorrelation = 1, kAdd = 0, kRelu = 100;
constexpr int kModeA = 3;  // of heuristics: what they know by heart, then a model of the GPU
constexpr int kNoteTensorCore = 0, kNoteStrictNan = 9;  // of engines as exact as the sum of products itself
constexpr int64_t kMostNotes = 32, kMostKnobs = 64, kMostOffers = 24;  // more than there are, or wanted
constexpr int64_t kAlignment = 16;                                     // of a caller's tensors, in bytes
constexpr int64_t kMostWorkspace = int64_t{256} << 20;                 // an engine that needs more is not worth it
constexpr int64_t kFirstBetween = 100;                                 // numbers of tensors between operations

int type_of(DataType type) { return type == DataType::kF16 ? 2 : type == DataType::kBF16 ? 9 : 0; }

// The cudnnPointwiseMode_t of each Activation; clip and leaky ReLU are ReLU with attributes.
constexpr int kModes[] = {-1, kRelu, kRelu, kRelu, 102, 101, 106, 104, 107, -1, 105};

// cuDNN has no convolutions over one dimension: they get a second one, of one element.
std::vector<int64_t> widened(std::vector<int64_t> list, int64_t filler) {
  if (list.size() == 1) list.push_back(filler);
  return list;
}

std::vector<int64_t> extents_of(int64_t first, int64_t channels, const std::vector<int64_t>& spatial) {
  std::vector<int64_t> extents = {first, channels};
  for (const int64_t extent : widened(spatial, 1)) extents.push_back(extent);
  return extents;
}

}  // namespace

void Cudnn::check(int status, const std::string& doing) const {
  if (status == 0) return;
  std::array<char, 1000> detail{};
  last_error(detail.data(), detail.size() - 1);
  std::string text = detail.data();
  std::ranges::replace(text, '\n', ' ');
  format::fail(ErrorCode::kDevice, "cuDNN ", version(), " cannot ", doing, ": ", std::string_view(error_string(status)),
               text.empty() ? "" : "; ", text);
}

CudnnDescriptor::CudnnDescriptor(const Cudnn& library, int kind)
    : library_(&library), object_(nullptr, library.descriptor_destroy) {
  void* made = nullptr;
  library.check(library.descriptor_create(kind, &made), "make a descriptor");
  object_.reset(made);
}

CudnnDescriptor::CudnnDescriptor(const Cudnn& library, int kind, const std::string& doing,
                                 const std::vector<CudnnAttribute>& attributes)
    : CudnnDescriptor(library, kind) {
  for (const CudnnAttribute& a : attributes) {
    const int status = library.set(get(), a.name, a.type, static_cast<int64_t>(a.count), a.values);
    if (status != 0) library.check(status, format::join(doing, " (attribute ", a.name, ")"));
  }
  library.check(library.finalize(get()), doing);
}

int64_t CudnnDescriptor::read(int attribute, int type, int64_t room, void* values) const {
  int64_t count = 0;
  library_->check(library_->get(get(), attribute, type, room, &count, values),
                  format::join("tell attribute ", attribute));
  return count;
}

int64_t CudnnDescriptor::number(int attribute) const {
  int64_t value = 0;
  read(attribute, kInt64, 1, &value);
  return value;
}

std::vector<CudnnDescriptor> CudnnDescriptor::read_list(int attribute, int kind, int64_t most) const {
  std::vector<CudnnDescriptor> list;
  std::vector<void*> objects;
  for (int64_t i = 0; i < most; ++i) objects.push_back(list.emplace_back(*library_, kind).get());
  const int64_t count = std::min(most, read(attribute, kDescriptor, most, objects.data()));
  list.erase(list.begin() + count, list.end());
  return list;
}

ConvolutionGraph::ConvolutionGraph(const Cudnn& library, void* handle, const Problem& p)
    : library_(library), problem_(p), result_(extents_of(p.batch, p.n, p.out_spatial())) {
  // The residual goes before the bias: in this order the library knows the graph as one of its own kernels.
  struct Step {
    int mode;
    const Operand* other;  // null: an activation
  };
  std::vector<Step> steps;
  for (const Operand* added : {&p.residual, &p.bias}) {
    if (!added->name.empty()) steps.push_back({kAdd, added});
  }
  if (p.activation != Activation::kNone) steps.push_back({kModes[static_cast<size_t>(p.activation)], nullptr});
  if (!p.late_residual.name.empty()) steps.push_back({kAdd, &p.late_residual});
  void* value = steps.empty() ? operand(p.out) : between();
  convolve(value);
  for (const Step& step : steps)
    value = follow(step.mode, value, step.other, &step == &steps.back() ? operand(p.out) : between());
  add(kGraph, {{kHandleOfGraph, kHandleType, handle}, {kOperations, kDescriptor, operations_}});
}

void* ConvolutionGraph::add(int kind, const std::vector<CudnnAttribute>& attributes) {
  return parts_.emplace_back(library_, kind, "describe " + to_string(problem_), attributes).get();
}

// The channels lie next to each other, then the spatial dims from the last one on.
void* ConvolutionGraph::tensor(const std::vector<int64_t>& extents, DataType type, int64_t number) {
  std::vector<int64_t> strides(extents.size(), 1);
  int64_t step = extents[1];
  for (size_t d = extents.size() - 1; d > 1; --d) strides[d] = step, step *= extents[d];
  strides[0] = step;
  return add(kTensor, {{kTypeOfTensor, kDataType, type_of(type)},
                       {kExtentsOfTensor, kInt64, extents},
                       {kStridesOfTensor, kInt64, strides},
                       {kNumberOfTensor, kInt64, number},
                       {kAlignmentOfTensor, kInt64, kAlignment},
                       {kIsVirtual, kBoolean, number >= kFirstBetween}});
}

void* ConvolutionGraph::operand(const Operand& o) {
  const Problem& p = problem_;
  const std::vector<const Operand*> all = p.operands();
  const auto index = static_cast<size_t>(std::ranges::find(all, &o) - all.begin());
  const std::vector<int64_t> extents = &o == &p.a      ? extents_of(p.batch, p.k, p.spatial)
                                       : &o == &p.b    ? extents_of(p.n, p.k / p.groups, p.window)
                                       : &o == &p.bias ? extents_of(1, p.n, std::vector<int64_t>(p.window.size(), 1))
                                                       : result_;
  return tensor(extents, o.dtype, number_of(index));
}

void* ConvolutionGraph::between() {
  return tensor(result_, DataType::kF32, kFirstBetween + static_cast<int64_t>(parts_.size()));
}

void ConvolutionGraph::convolve(void* result) {
  const Problem& p = problem_;
  void* window = add(kConvolution, {{kMathOfConvolution, kDataType, type_of(DataType::kF32)},
                                    {kModeOfConvolution, kConvolutionMode, kCrossCorrelation},
                                    {kSpatialDims, kInt64, std::ssize(result_) - 2},
                                    {kPads, kInt64, widened(p.pads, 0)},
                                    {kPadsEnd, kInt64, widened(p.pads_end, 0)},
                                    {kStrides, kInt64, widened(p.strides, 1)},
                                    {kDilations, kInt64, widened(p.dilations, 1)}});
  operations_.push_back(add(kConvolutionForward, {{kForwardConvolution, kDescriptor, window},
                                                  {kForwardImages, kDescriptor, operand(p.a)},
                                                  {kForwardFilters, kDescriptor, operand(p.b)},
                                                  {kForwardResult, kDescriptor, result},
                                                  {kForwardAlpha, kFloat, 1.0f},
                                                  {kForwardBeta, kFloat, 0.0f}}));
}

void* ConvolutionGraph::follow(int mode, void* value, const Operand* other, void* result) {
  const Problem& p = problem_;
  const int math = type_of(DataType::kF32);
  std::vector<CudnnAttribute> kind = {{kModeOfPointwise, kPointwiseMode, mode}, {kMathOfPointwise, kDataType, math}};
  if (mode == kRelu && p.activation == Activation::kClip) kind.push_back({kUpperClip, kDouble, p.parameters[1]});
  if (mode == kRelu && p.activation == Activation::kLeakyRelu) kind.push_back({kSlope, kDouble, p.parameters[0]});
  void *described = add(kPointwise, kind), *second = other == nullptr ? nullptr : operand(*other);
  std::vector<CudnnAttribute> step = {
      {kStepPointwise, kDescriptor, described}, {kStepValue, kDescriptor, value}, {kStepResult, kDescriptor, result}};
  if (second != nullptr) step.push_back({kStepOther, kDescriptor, second});
  operations_.push_back(add(kPointwiseStep, step));
  return result;
}

LibraryObject ConvolutionCall::start(const Cudnn& library) {
  void* handle = nullptr;
  library.check(library.create(&handle), "start");
  return {handle, library.destroy};
}

ConvolutionCall::ConvolutionCall(const Cudnn& library, void* handle, const LibraryCall& call)
    : library_(library), handle_(handle), problem_(call.problem), graph_(library, handle, problem_) {
  const std::string doing = "compute " + to_string(call);
  const auto add = [&](int kind, const std::vector<CudnnAttribute>& attributes) {
    return parts_.emplace_back(library, kind, doing, attributes).get();
  };
  void* engine = add(kEngine, {{kGraphOfEngine, kDescriptor, graph_.get()}, {kIndexOfEngine, kInt64, call.algorithm}});
  std::vector<void*> knobs;
  for (const auto& [type, value] : call.knobs)
    knobs.push_back(
        add(kKnobChoice, {{kTypeOfKnob, kKnobType, static_cast<int>(type)}, {kValueOfKnob, kInt64, value}}));
  std::vector<CudnnAttribute> choice = {{kEngineOfConfig, kDescriptor, engine}};
  if (!knobs.empty()) choice.push_back({kKnobsOfConfig, kDescriptor, knobs});
  add(kPlan, {{kHandleOfPlan, kHandleType, handle}, {kConfigOfPlan, kDescriptor, add(kConfig, choice)}});
  const int64_t bytes = parts_.back().number(kWorkspaceOfPlan);
  if (bytes < 0 || bytes > kMostWorkspace)
    format::fail(ErrorCode::kDevice, "cuDNN ", library_.version(), " wants ", bytes, " bytes of memory to ", doing);
  workspace_bytes_ = static_cast<size_t>(bytes);
}

void ConvolutionCall::run(std::span<const DevicePtr> operands, DevicePtr workspace, StreamHandle stream) const {
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < operands.size(); ++i) numbers.push_back(ConvolutionGraph::number_of(i));
  const CudnnDescriptor pack(library_, kPack, "take its operands",
                             {{kPackNumbers, kInt64, numbers},
                              {kPackAddresses, kPointer, std::vector(operands.begin(), operands.end())},
                              {kPackWorkspace, kPointer, workspace}});
  library_.check(library_.set_stream(handle_, stream), "use a stream");
  library_.check(library_.execute(handle_, parts_.back().get(), pack.get()), "convolve");
}

namespace {

// Whether an engine sums as it should: nothing is transformed or rounded on the way, and no two runs differ.
bool is_exact(const CudnnDescriptor& engine) {
  std::array<int, kMostNotes> notes{};
  const int64_t count = engine.read(kNotesOfEngine, kNumericalNote, kMostNotes, notes.data());
  return std::all_of(notes.begin(), notes.begin() + std::clamp<int64_t>(count, 0, kMostNotes),
                     [](int note) { return note == kNoteTensorCore || note == kNoteStrictNan; });
}

}  // namespace

std::vector<LibraryCall> cudnn_offers(const Cudnn& library, void* handle, const Problem& problem, size_t most) {
  const ConvolutionGraph graph(library, handle, problem);
  const CudnnDescriptor heuristics(
      library, kHeuristics, "find engines for " + to_string(problem),
      {{kGraphOfHeuristics, kDescriptor, graph.get()}, {kModeOfHeuristics, kHeuristicsMode, kModeA}});
  std::vector<LibraryCall> offers;
  for (const CudnnDescriptor& config : heuristics.read_list(kResults, kConfig, kMostOffers)) {
    const std::vector<CudnnDescriptor> engine = config.read_list(kEngineOfConfig, kEngine, 1);
    if (offers.size() == most || engine.empty() || !is_exact(engine[0])) continue;
    LibraryCall call{"cudnn", static_cast<int64_t>(library.version()), engine[0].number(kIndexOfEngine), problem};
    for (const CudnnDescriptor& knob : config.read_list(kKnobsOfConfig, kKnobChoice, kMostKnobs)) {
      int type = 0;
      knob.read(kTypeOfKnob, kKnobType, 1, &type);
      call.knobs.emplace_back(type, knob.number(kValueOfKnob));
    }
    if (std::ranges::find(offers, call) == offers.end()) offers.push_back(std::move(call));
  }
  return offers;
}

const Cudnn& open_cudnn() {
  static const Cudnn library = [] {
    const SharedLibrary from("cuDNN", {"libcudnn.so.9"}, "install cuDNN 9");
    Cudnn l{};
    from.resolve("cudnnGetVersion", l.version);
    from.resolve("cudnnGetErrorString", l.error_string);
    from.resolve("cudnnGetLastErrorString", l.last_error);
    from.resolve("cudnnCreate", l.create);
    from.resolve("cudnnDestroy", l.destroy);
    from.resolve("cudnnSetStream", l.set_stream);
    from.resolve("cudnnBackendCreateDescriptor", l.descriptor_create);
    from.resolve("cudnnBackendDestroyDescriptor", l.descriptor_destroy);
    from.resolve("cudnnBackendSetAttribute", l.set);
    from.resolve("cudnnBackendGetAttribute", l.get);
    from.resolve("cudnnBackendFinalize", l.finalize);
    from.resolve("cudnnBackendExecute", l.execute);
    return l;
  }();
  return library;
}

}  // namespace tw::runtime::cuda
