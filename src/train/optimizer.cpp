#include "train/optimizer.h"

namespace tw::train {
namespace {

using graph::Term;

std::vector<Term> by_momentum(const Optimizer& o, const Update& u, const Term& gradient) {
  if (o.momentum == 0) return {u.parameter - u.rate * gradient};
  const Term velocity = u.kept[0] * o.momentum + gradient;
  return {u.parameter - u.rate * velocity, velocity};
}

// 1 - beta^t: what a mean that begins with 0 has reached.
Term reached(double beta, const Term& step) { return 1.0 - graph::emit("pow", {step.number(beta), step}); }

// |p| / |u|, 1 where one of them is 0.
Term trust_ratio(const Term& p, const Term& u) {
  const Term of_p = sum_of_squares({p}), of_u = sum_of_squares({u});
  const Term usable = graph::compare("greater", graph::emit("min", {of_p, of_u}), 0);
  return graph::where(usable, graph::emit("sqrt", {of_p / graph::where(usable, of_u, 1)}), 1);
}

std::vector<Term> by_moments(const Optimizer& o, const Update& u, const Term& gradient) {
  const Term mean = u.kept[0] * o.beta1 + gradient * (1 - o.beta1);
  const Term square = u.kept[1] * o.beta2 + gradient * gradient * (1 - o.beta2);
  const Term root = graph::emit("sqrt", {square / reached(o.beta2, u.step)});
  const Term direction = mean / reached(o.beta1, u.step) / (root + o.epsilon);
  if (o.method == Method::kLamb) {
    const Term all = o.weight_decay == 0 ? direction : direction + u.parameter * o.weight_decay;
    return {u.parameter - u.rate * trust_ratio(u.parameter, all) * all, mean, square};
  }
  Term next = u.parameter - u.rate * direction;
  if (o.method == Method::kAdamW && o.weight_decay != 0) next = next - u.rate * o.weight_decay * u.parameter;
  return {next, mean, square};
}

// Whether the decay is part of the gradient.
bool decays_by_gradient(const Optimizer& o) {
  return o.weight_decay != 0 && (o.method == Method::kSgd || o.method == Method::kAdam);
}

}  // namespace

std::vector<std::string> kept_by(const Optimizer& optimizer) {
  if (optimizer.method != Method::kSgd) return {"m", "v"};
  return optimizer.momentum == 0 ? std::vector<std::string>() : std::vector<std::string>{"v"};
}

bool counts_steps(const Optimizer& optimizer) { return optimizer.method != Method::kSgd; }

std::vector<Term> updated(const Optimizer& optimizer, const Update& update) {
  const Term gradient =
      decays_by_gradient(optimizer) ? update.gradient + update.parameter * optimizer.weight_decay : update.gradient;
  return optimizer.method == Method::kSgd ? by_momentum(optimizer, update, gradient)
                                          : by_moments(optimizer, update, gradient);
}

}  // namespace tw::train
