#include <algorithm>
#include <charconv>
#include <sstream>

#include "plan/plan.h"
#include "plan/text.h"
#include "support/error.h"
#include "support/lexer.h"

namespace tw::plan {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : lines_(std::string(text)) {}

  Plan run() {
    next();
    if (line_ == kHeaderOfFirst)
      fail(
          "a plan of an earlier version, which does not hold all that its compilation decided: compile the model "
          "without "
          "it and have a new one written");
    if (line_ != kHeader) fail(fmt::format("expected '{}'", kHeader));
    while (next()) {
      try {
        take_line();
      } catch (const Failure&) {
        throw;
      } catch (const UserError& error) {  // of what has a parser of its own
        fail(error.what());
      }
    }
    if (bodies_ > 0) fail("expected 'end' of a body");
    return std::move(plan_);
  }

 private:
  // An error that names the line already.
  struct Failure : UserError {
    using UserError::UserError;
  };

  bool next() {
    ++number_;
    const bool found = static_cast<bool>(std::getline(lines_, line_));
    rest_ = line_;
    return found;
  }
  [[noreturn]] void fail(const std::string& why) const { throw Failure("plan line {}: {}: '{}'", number_, why, line_); }

  // Whether the line goes on with `word` and a space, or ends with it; takes them.
  bool accept(std::string_view word) {
    const bool is_whole = rest_.size() == word.size() || (rest_.size() > word.size() && rest_[word.size()] == ' ');
    if (!rest_.starts_with(word) || !is_whole) return false;
    rest_.remove_prefix(std::min(rest_.size(), word.size() + 1));
    return true;
  }
  std::string take_word(std::string_view what) {
    const size_t end = std::min(rest_.size(), rest_.find(' '));
    if (end == 0) fail(fmt::format("expected {}", what));
    const std::string word(rest_.substr(0, end));
    rest_.remove_prefix(std::min(rest_.size(), end + 1));
    return word;
  }
  std::string take_name() {
    size_t end = 1;
    for (; end < rest_.size() && rest_[end] != '"'; ++end) end += rest_[end] == '\\' ? 1 : 0;
    if (rest_.empty() || rest_[0] != '"' || end >= rest_.size()) fail("expected a name in quotes");
    const std::string name = Lexer(rest_.substr(0, end + 1)).string();
    rest_.remove_prefix(end + 1);
    if (!rest_.empty() && rest_[0] != ' ') fail("expected a space behind the name");
    rest_.remove_prefix(std::min<size_t>(rest_.size(), 1));
    return name;
  }
  template <typename Number>
  Number take_number() {
    const std::string word = take_word("a number");
    Number value = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (code != std::errc() || end != word.data() + word.size()) fail("expected a number");
    return value;
  }
  std::string take_rest() { return unescaped(std::exchange(rest_, {})); }
  void expect_end() const {
    if (!rest_.empty()) fail(fmt::format("'{}' is too much", rest_));
  }

  // The entry, or the body of one of its loops, that the line belongs to.
  EntryPlan& entry() {
    if (plan_.entries.empty()) fail("expected 'entry NAME' before");
    EntryPlan* opened = &plan_.entries.back();
    for (size_t b = 0; b < bodies_; ++b) opened = &opened->bodies.back();
    return *opened;
  }

  void take_line() {
    if (accept(" ")) return take_group_line();  // two of them
    if (accept("target")) return take_target();
    if (accept("machine")) return void(machine_ = take_rest());
    if (accept("entry")) return open(plan_.entries);
    if (accept("body")) return open_body();
    if (accept("end")) return end_body();
    if (accept("graph")) return void(entry().graph_hash = take_rest());
    if (accept("pass")) return take_pass();
    if (accept("value")) return take_value(entry().layouts);
    if (accept("read")) return take_read(entry().layouts);
    if (accept("between")) return take_value(entry().between);
    if (accept("copied")) return take_read(entry().between);
    if (accept("layouts")) return take_layout_times();
    if (accept("group")) return take_group();
    if (!plan_.entries.empty() && plan::take_line(line_, entry().reasons)) return;
    fail("unknown line");
  }

  void open(std::vector<EntryPlan>& list) {
    if (&list == &plan_.entries && bodies_ > 0) fail("expected 'end' of a body before");
    EntryPlan& opened = list.emplace_back();
    opened.name = take_rest();
    opened.target = target_;
    opened.machine = machine_;
  }

  void open_body() {
    open(entry().bodies);
    ++bodies_;
  }

  void end_body() {
    if (bodies_ == 0) fail("no body is open");
    --bodies_;
  }

  // Target and machine are those of the entries that follow.
  void take_target() {
    target_ = take_rest();
    machine_.clear();
  }

  void take_pass() {
    PassVariant variant{take_word("PASS"), take_word("VARIANT")};
    variant.us = take_number<double>();
    variant.usual_us = take_number<double>();
    variant.is_chosen = accept(kChosen);
    expect_end();
    entry().passes.push_back(std::move(variant));
  }

  void take_value(ValueLayouts& layouts) {
    const std::string name = take_name();
    if (!layouts.values.try_emplace(name, parse_layout(take_rest())).second) fail("this value is there twice");
  }

  void take_read(ValueLayouts& layouts) {
    const std::string reader = take_name();
    const auto input = take_number<int64_t>();
    if (!layouts.reads.try_emplace({reader, input}, parse_layout(take_rest())).second) fail("this read is there twice");
  }

  void take_layout_times() {
    LayoutTimes times{take_name()};
    times.usual_us = take_number<double>();
    times.chosen_us = take_number<double>();
    while (!rest_.empty()) times.us.push_back(take_number<double>());
    entry().layout_times.push_back(std::move(times));
  }

  void take_group() {
    GroupPlan group{take_name(), take_word("a family")};
    if (!rest_.empty()) group.content = take_word("a hash");
    expect_end();
    entry().groups.push_back(std::move(group));
  }

  OtherCandidate take_tried() {
    OtherCandidate tried{take_word("a family")};
    tried.microseconds = take_number<double>();
    tried.predicted_us = take_number<double>();
    const std::string effort = take_word("how it was measured");
    if (effort != kRough && effort != kWhole) fail(fmt::format("expected {} or {}", kRough, kWhole));
    tried.is_rough = effort == kRough;
    tried.equal_code = take_number<int64_t>();
    tried.differs = take_name();
    tried.reason = take_rest();
    return tried;
  }

  void take_group_line() {
    if (entry().groups.empty()) fail("expected 'group \"NAME\" FAMILY' before");
    GroupPlan& g = entry().groups.back();
    if (accept("do")) {
      g.schedule.add(schedule::parse_primitive(take_rest()));
    } else if (accept("time")) {
      g.microseconds = take_number<double>();
      expect_end();
    } else if (accept("predicted")) {
      g.predicted_us = take_number<double>();
      expect_end();
    } else if (accept("trace")) {
      g.trace.push_back(take_rest());
    } else if (accept("layout")) {
      const std::string tensor = take_word("a tensor");
      g.layouts[tensor] = parse_layout(take_rest());
    } else if (accept("rival") || accept("candidate")) {
      const std::string family = take_word("a family");
      g.other_candidates.push_back({family, take_rest()});
    } else if (accept("tried")) {
      g.other_candidates.push_back(take_tried());
    } else {
      fail("unknown line");
    }
  }

  std::istringstream lines_;
  std::string line_;
  std::string_view rest_;  // of the line, what is not taken yet
  int number_ = 0;
  size_t bodies_ = 0;  // open ones, each of a loop of the one around
  std::string target_, machine_;
  Plan plan_;
};

}  // namespace

Plan parse_plan(std::string_view text) { return Parser(text).run(); }

}  // namespace tw::plan
