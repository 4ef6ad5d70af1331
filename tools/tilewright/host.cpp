#include "tilewright/host.h"

#include <utility>

namespace tw::cli {
namespace {

thread_local const Host* current = nullptr;

}  // namespace

const Host* host() { return current; }

Hosted::Hosted(const Host& host) : before_(std::exchange(current, &host)) {}
Hosted::~Hosted() { current = before_; }

}  // namespace tw::cli
