#include "runtime/device/cuda/cudnn.h"

#include <algorithm>
#include <array>
#include <limits>

#include "runtime/format/error.h"

namespace tw::runtime::cuda {
namespace {

using format::Activation;
using format::DataType;
using format::ErrorCode;
using format::LibraryCall;
using format::Operand;
using format::ProblemDescriptor;

// cudnnBackendDescriptorType_t
constexpr int kConvolution = 1, kEngine = 2, kConfig = 3, kHeuristics = 4, kPlan = 5, kKnobChoice = 7,
              kConvolutionForward = 10, kGraph = 15, kPack = 16, kTensor = 17;
// cudnnBackendAttributeType_t
constexpr int kHandleType = 0, kDataType = 1, kBoolean = 2, kInt64 = 3, kFloat = 4, kDouble = 5, kPointer = 6,
              kConvolutionMode = 7, kHeuristicsMode = 8, kKnobType = 9, kNumericalNote = 11, kDescriptor = 15;
// cudnnBackendAttributeName_t
constexpr int kUpperClip = 4, kSlope = 5, kAxis = 9, kThird = 758;
constexpr int kMathOfConvolution = 100, kModeOfConvolution = 101, kDilations = 102, kStrides = 103, kPadsEnd = 104,
              kPads = 105, kSpatialDims = 106;
constexpr int kModeOfHeuristics = 200, kGraphOfHeuristics = 201, kResults = 202;
constexpr int kEngineOfConfig = 300, kKnobsOfConfig = 302, kTypeOfKnob = 600, kValueOfKnob = 601;
constexpr int kHandleOfPlan = 400, kConfigOfPlan = 401, kWorkspaceOfPlan = 402;
constexpr int kForwardAlpha = 700, kForwardBeta = 701, kForwardConvolution = 702, kForwardFilters = 703,
              kForwardImages = 704, kForwardResult = 705;
constexpr int kHandleOfGraph = 800, kOperations = 801;
constexpr int kAlignmentOfTensor = 900, kTypeOfTensor = 901, kExtentsOfTensor = 902, kStridesOfTensor = 903,
              kNumberOfTensor = 906, kIsVirtual = 907, kIsByValue = 908;
constexpr int kPackNumbers = 1000, kPackAddresses = 1001, kPackWorkspace = 1003;
constexpr int kGraphOfEngine = 1300, kIndexOfEngine = 1301, kNotesOfEngine = 1303;
// Descriptors of an operation and its use, attributes of the former, with the type of its mode, and of the latter.
struct Operation {
  int kind, use, math, mode, mode_type, kind_of_use, value, other, result;
};
constexpr Operation kPointwise = {0, 13, 1, 0, 14, 750, 751, 752, 753},
                    kProduct = {18, 19, 1500, 0, 0, 1523, 1520, 1521, 1522},
                    kReduction = {21, 22, 1601, 1600, 18, 1612, 1610, 0, 1611};

constexpr int kCrossCorrelation = 1, kAdd = 0, kMultiply = 1, kDivide = 6, kSubtract = 9, kExp = 13, kLog = 15,
              kRelu = 100, kGreaterOrEqual = 303, kIndex = 501, kSelect = 601, kSumOf = 0, kMaximumOf = 3;
constexpr int kFloat32 = 0, kInt32 = 4, kBool = 11;  // cudnnDataType_t
constexpr int kModeA = 3;                            // of heuristics: what they know by heart, then a model of the GPU
constexpr int kNoHostMemory = 4003, kNoDeviceMemory = 4004;         // statuses
constexpr int kNoteTensorCore = 0, kNoteStrictNan = 9;              // of engines as exact as the sum of products itself
constexpr int64_t kMaxNotes = 32, kMaxKnobs = 64, kMaxOffers = 24;  // more than there are, or wanted
constexpr int64_t kAlignment = 16;                                  // of a caller's tensors, in bytes
constexpr int64_t kMaxWorkspace = int64_t{256} << 20;               // an engine that needs more is not worth it
constexpr int64_t kScale = 99, kNothing = 98;  // the numbers of attention's scale, and of what masked scores are
constexpr int64_t kFirstBetween = 100;         // numbers of tensors between operations

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

// Makes of a problem a graph of the library's operations, the last one of `parts`.
class GraphMaker {
 public:
  GraphMaker(const Cudnn& library, const ProblemDescriptor& problem, std::deque<CudnnDescriptor>& parts)
      : library_(library), problem_(problem), parts_(parts) {}

  void* make(void* handle) {
    problem_.kind == ProblemDescriptor::Kind::kAttention ? attend() : convolve();
    return add(kGraph, {{kHandleOfGraph, kHandleType, handle}, {kOperations, kDescriptor, operations_}});
  }

 private:
  using Extents = std::vector<int64_t>;

  void* add(int kind, const std::vector<CudnnAttribute>& attributes) {
    return parts_.emplace_back(library_, kind, "describe " + to_string(problem_), attributes).get();
  }

  void convolve() {
    const ProblemDescriptor& p = problem_;
    const bool activates = p.activation != Activation::kNone;
    auto follow = std::ssize(p.operands()) - 3 + (activates ? 1 : 0);  // steps
    const auto next = [&] { return follow-- > 0 ? tensor(extents_of(p.batch, p.n, p.out_spatial())) : operand(p.out); };
    void* window = add(kConvolution, {{kMathOfConvolution, kDataType, type_of(DataType::kF32)},
                                      {kModeOfConvolution, kConvolutionMode, kCrossCorrelation},
                                      {kSpatialDims, kInt64, std::max<int64_t>(2, std::ssize(p.window))},
                                      {kPads, kInt64, widened(p.pads, 0)},
                                      {kPadsEnd, kInt64, widened(p.pads_end, 0)},
                                      {kStrides, kInt64, widened(p.strides, 1)},
                                      {kDilations, kInt64, widened(p.dilations, 1)}});
    void* value = next();
    operations_.push_back(add(kConvolutionForward, {{kForwardConvolution, kDescriptor, window},
                                                    {kForwardImages, kDescriptor, operand(p.a)},
                                                    {kForwardFilters, kDescriptor, operand(p.b)},
                                                    {kForwardResult, kDescriptor, value},
                                                    {kForwardAlpha, kFloat, 1.0f},
                                                    {kForwardBeta, kFloat, 0.0f}}));
    // The residual goes before the bias: in this order the library knows the graph as one of its own kernels.
    for (const Operand* added : {&p.residual, &p.bias}) {
      if (!added->name.empty()) value = operate(kPointwise, kAdd, value, operand(*added), next());
    }
    if (activates) value = operate(kPointwise, kModes[static_cast<size_t>(p.activation)], value, nullptr, next());
    if (!p.late_residual.name.empty()) operate(kPointwise, kAdd, value, operand(p.late_residual), next());
  }

  // The very steps by which the library knows attention.
  void attend() {
    const ProblemDescriptor& p = problem_;
    const Extents all = {p.batch, p.groups, p.m, p.keys}, row = {p.batch, p.groups, p.m, 1};
    void* scores = operate(kProduct, 0, operand(p.a), operand(p.b), tensor(all));
    scores = operate(kPointwise, kMultiply, scores, tensor({1, 1, 1, 1}, DataType::kF32, kScale), tensor(all));
    if (!p.residual.name.empty()) scores = operate(kPointwise, kAdd, scores, operand(p.residual), tensor(all));
    if (p.causal) scores = masked(scores, all);
    void* max = operate(kReduction, kMaximumOf, scores, nullptr, tensor(row));
    void* powers = operate(kPointwise, kSubtract, scores, max, tensor(all));
    powers = operate(kPointwise, kExp, powers, nullptr, tensor(all));
    void* sum = operate(kReduction, kSumOf, powers, nullptr, tensor(row));
    operate(kPointwise, kAdd, max, operate(kPointwise, kLog, sum, nullptr, tensor(row)), tensor(row));  // for training
    powers = operate(kPointwise, kDivide, powers, sum, tensor(all, p.a.dtype));
    operate(kProduct, 0, powers, operand(p.values), operand(p.out));
  }

  // Scores of keys behind the row's own are minus infinity.
  void* masked(void* scores, const Extents& all) {
    void* row = operate(kPointwise, kIndex, scores, nullptr, plain_tensor(all, kInt32), {.math = kInt32, .axis = 2});
    void* key = operate(kPointwise, kIndex, scores, nullptr, plain_tensor(all, kInt32), {.math = kInt32, .axis = 3});
    void* seen = operate(kPointwise, kGreaterOrEqual, row, key, plain_tensor(all, kBool), {.math = kBool});
    void* nothing = tensor({1, 1, 1, 1}, DataType::kF32, kNothing);
    return operate(kPointwise, kSelect, scores, nothing, tensor(all), {.third = seen});
  }

  // Without a number it is one between operations; without strides channels lie next to each other, then dims from the
  // last one on, and attention has no channels.
  void* tensor(const Extents& extents, DataType type = DataType::kF32, int64_t number = 0, Extents strides = {}) {
    return plain_tensor(extents, type_of(type), number, std::move(strides));
  }
  void* plain_tensor(const Extents& extents, int type, int64_t number = 0, Extents strides = {}) {
    const int64_t known = number != 0 ? number : kFirstBetween + std::ssize(parts_);
    const bool channels = problem_.kind == ProblemDescriptor::Kind::kConvolution, given = !strides.empty();
    strides.resize(extents.size(), 1);
    int64_t step = channels ? extents[1] : 1;
    for (size_t d = extents.size(); d-- > 0 && !given;)
      if (!channels || d != 1) strides[d] = step, step *= extents[d];
    return add(kTensor, {{kTypeOfTensor, kDataType, type},
                         {kExtentsOfTensor, kInt64, extents},
                         {kStridesOfTensor, kInt64, strides},
                         {kNumberOfTensor, kInt64, known},
                         {kAlignmentOfTensor, kInt64, kAlignment},
                         {kIsByValue, kBoolean, number == kScale || number == kNothing},
                         {kIsVirtual, kBoolean, number == 0}});
  }

  void* operand(const Operand& o) {
    const ProblemDescriptor& p = problem_;
    const std::vector<const Operand*> all = p.operands();
    const int64_t number = std::ranges::find(all, &o) - all.begin() + 1;
    const bool left = &o == &p.a, right = &o == &p.b;
    if (p.kind == ProblemDescriptor::Kind::kConvolution)
      return tensor(left            ? extents_of(p.batch, p.k, p.spatial)
                    : right         ? extents_of(p.n, p.k / p.groups, p.window)
                    : &o == &p.bias ? extents_of(1, p.n, Extents(p.window.size(), 1))
                                    : extents_of(p.batch, p.n, p.out_spatial()),
                    o.dtype, number);
    const bool by_keys = right || &o == &p.values;
    Extents extents = {p.batch, p.groups, by_keys ? p.keys : p.m, left || right ? p.k : by_keys ? p.n : p.keys};
    if (&o == &p.out) extents[3] = p.n;
    Extents strides = {o.matrix, o.head, o.line, 1};
    for (size_t d = 3; d-- > 0;)  // heads or rows that are all the same: one of them
      if (strides[d] == 0) extents[d] = 1, strides[d] = strides[d + 1] * extents[d + 1];
    if (right) std::swap(extents[2], extents[3]), std::swap(strides[2], strides[3]);  // keys are columns
    return tensor(extents, o.dtype, number, strides);
  }

  // Of some operations: the type that they compute in, along which axis they count, what chooses.
  struct Details {
    int math = kFloat32;
    int64_t axis = -1;
    void* third = nullptr;
  };
  // `other` is null where there is one operand.
  void* operate(const Operation& operation, int mode, void* value, void* other, void* result) {
    return operate(operation, mode, value, other, result, Details());
  }
  void* operate(const Operation& operation, int mode, void* value, void* other, void* result, const Details& details) {
    const ProblemDescriptor& p = problem_;
    std::vector<CudnnAttribute> kind = {{operation.math, kDataType, details.math}};
    if (details.axis >= 0) kind.push_back({kAxis, kInt64, details.axis});
    if (operation.mode_type != 0) kind.push_back({operation.mode, operation.mode_type, mode});
    if (mode == kRelu && p.activation == Activation::kClip) kind.push_back({kUpperClip, kDouble, p.parameters[1]});
    if (mode == kRelu && p.activation == Activation::kLeakyRelu) kind.push_back({kSlope, kDouble, p.parameters[0]});
    void* described = add(operation.kind, kind);
    std::vector<CudnnAttribute> use = {{operation.kind_of_use, kDescriptor, described},
                                       {operation.value, kDescriptor, value},
                                       {operation.result, kDescriptor, result}};
    if (other != nullptr) use.push_back({operation.other, kDescriptor, other});
    if (details.third != nullptr) use.push_back({kThird, kDescriptor, details.third});
    operations_.push_back(add(operation.use, use));
    return result;
  }

  const Cudnn& library_;
  const ProblemDescriptor& problem_;
  std::deque<CudnnDescriptor>& parts_;
  std::vector<void*> operations_;
};

// Whether an engine sums as it should: nothing is transformed or rounded on the way, and no two runs differ.
bool is_exact(const CudnnDescriptor& engine) {
  std::array<int, kMaxNotes> notes{};
  const int64_t count = engine.read(kNotesOfEngine, kNumericalNote, kMaxNotes, notes.data());
  return std::all_of(notes.begin(), notes.begin() + std::clamp<int64_t>(count, 0, kMaxNotes),
                     [](int note) { return note == kNoteTensorCore || note == kNoteStrictNan; });
}

}  // namespace

void Cudnn::check(int status, const std::string& doing) const {
  if (status == 0) return;
  std::array<char, 1000> detail{};
  last_error(detail.data(), detail.size() - 1);
  std::string text = detail.data();
  std::ranges::replace(text, '\n', ' ');
  const bool no_memory = status == kNoHostMemory || status == kNoDeviceMemory;
  format::fail(no_memory ? ErrorCode::kOutOfMemory : ErrorCode::kDevice, "cuDNN ", version(), " cannot ", doing, ": ",
               std::string_view(error_string(status)), text.empty() ? "" : "; ", text);
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

std::vector<CudnnDescriptor> CudnnDescriptor::read_list(int attribute, int kind, int64_t max) const {
  std::vector<CudnnDescriptor> list;
  std::vector<void*> objects;
  for (int64_t i = 0; i < max; ++i) objects.push_back(list.emplace_back(*library_, kind).get());
  const int64_t count = std::min(max, read(attribute, kDescriptor, max, objects.data()));
  list.erase(list.begin() + count, list.end());
  return list;
}

LibraryObject CudnnCall::start(const Cudnn& library) {
  void* handle = nullptr;
  library.check(library.create(&handle), "start");
  return {handle, library.destroy};
}

CudnnCall::CudnnCall(const Cudnn& library, void* handle, const LibraryCall& call)
    : library_(library), handle_(handle), problem_(call.problem) {
  void* graph = GraphMaker(library, call.problem, parts_).make(handle);
  const std::string doing = "compute " + to_string(call);
  const auto add = [&](int kind, const std::vector<CudnnAttribute>& attributes) {
    return parts_.emplace_back(library, kind, doing, attributes).get();
  };
  void* engine = add(kEngine, {{kGraphOfEngine, kDescriptor, graph}, {kIndexOfEngine, kInt64, call.algorithm}});
  std::vector<void*> knobs;
  for (const auto& [type, value] : call.knobs)
    knobs.push_back(
        add(kKnobChoice, {{kTypeOfKnob, kKnobType, static_cast<int>(type)}, {kValueOfKnob, kInt64, value}}));
  std::vector<CudnnAttribute> choice = {{kEngineOfConfig, kDescriptor, engine}};
  if (!knobs.empty()) choice.push_back({kKnobsOfConfig, kDescriptor, knobs});
  add(kPlan, {{kHandleOfPlan, kHandleType, handle}, {kConfigOfPlan, kDescriptor, add(kConfig, choice)}});
  const int64_t bytes = parts_.back().number(kWorkspaceOfPlan);
  if (bytes < 0 || bytes > kMaxWorkspace)
    format::fail(ErrorCode::kDevice, "cuDNN ", library_.version(), " wants ", bytes, " bytes of memory to ", doing);
  workspace_bytes_ = static_cast<size_t>(bytes);
}

void CudnnCall::run(std::span<const DevicePtr> operands, DevicePtr workspace, StreamHandle stream) const {
  std::vector<int64_t> numbers;
  std::vector<DevicePtr> addresses;
  for (const Operand* o : problem_.operands()) {
    addresses.push_back(operands[numbers.size()] + static_cast<DevicePtr>(o->first * bytes_of(o->dtype)));
    numbers.push_back(std::ssize(addresses));
  }
  const float scale = problem_.parameters.empty() ? 1 : static_cast<float>(problem_.parameters[0]);
  const float nothing = -std::numeric_limits<float>::infinity();
  if (problem_.activation == Activation::kSoftmax)
    numbers.push_back(kScale), addresses.push_back(reinterpret_cast<DevicePtr>(&scale));
  if (problem_.causal) numbers.push_back(kNothing), addresses.push_back(reinterpret_cast<DevicePtr>(&nothing));
  const CudnnDescriptor pack(
      library_, kPack, "take its operands",
      {{kPackNumbers, kInt64, numbers}, {kPackAddresses, kPointer, addresses}, {kPackWorkspace, kPointer, workspace}});
  library_.check(library_.set_stream(handle_, stream), "use a stream");
  library_.check(library_.execute(handle_, parts_.back().get(), pack.get()), "run");
}

std::vector<LibraryCall> cudnn_offers(const Cudnn& library, void* handle, const ProblemDescriptor& problem,
                                      size_t max) {
  std::deque<CudnnDescriptor> parts;
  const void* graph = GraphMaker(library, problem, parts).make(handle);
  const CudnnDescriptor heuristics(
      library, kHeuristics, "find engines for " + to_string(problem),
      {{kGraphOfHeuristics, kDescriptor, graph}, {kModeOfHeuristics, kHeuristicsMode, kModeA}});
  std::vector<LibraryCall> offers;
  for (const CudnnDescriptor& config : heuristics.read_list(kResults, kConfig, kMaxOffers)) {
    const std::vector<CudnnDescriptor> engine = config.read_list(kEngineOfConfig, kEngine, 1);
    if (offers.size() == max || engine.empty() || !is_exact(engine[0])) continue;
    LibraryCall call{"cudnn", static_cast<int64_t>(library.version()), engine[0].number(kIndexOfEngine), problem};
    for (const CudnnDescriptor& knob : config.read_list(kKnobsOfConfig, kKnobChoice, kMaxKnobs)) {
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
