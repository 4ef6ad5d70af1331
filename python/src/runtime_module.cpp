// tilewright._runtime: the C interface of the runtime (tilewright/runtime.h), as tilewright/_model.py uses it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "model.h"
#include "status.h"

namespace nb = nanobind;
using namespace nb::literals;
using tw::python::Access;
using tw::python::Binding;
using tw::python::Kind;
using tw::python::LoadOptions;
using tw::python::Model;
using tw::python::State;
using tw::python::Tensor;

namespace {

using List = nb::typed<nb::list, nb::any>;
using Tuple = nb::typed<nb::tuple, int, nb::ellipsis>;

void bind_tensor(nb::module_& module) {
  nb::class_<Tensor>(module, "Tensor")
      .def_ro("name", &Tensor::name)
      .def_prop_ro("dtype", [](const Tensor& tensor) { return tw::python::dtype_name(tensor.type); })
      .def_prop_ro("shape", [](const Tensor& tensor) {
        nb::list shape;
        for (const int64_t extent : tensor.shape) shape.append(extent);
        return Tuple(nb::tuple(shape));
      });
}

void bind_state(nb::module_& module) {
  nb::class_<State>(module, "State")
      .def_prop_ro("values", &State::values)
      .def(
          "get", [](const State& state, int index, int kind) { return state.get(index, static_cast<Kind>(kind)); },
          "index"_a, "kind"_a)
      .def("set", &State::set, "index"_a, "value"_a)
      .def("reset", &State::reset)
      .def("save", &State::save, "path"_a)
      .def("load", &State::load, "path"_a);
}

void bind_model(nb::module_& module) {
  nb::class_<Model>(module, "Model")
      .def_static("load_file", &Model::load_file, "path"_a, "options"_a)
      .def_static("load_bytes", &Model::load_bytes, "bytes"_a, "options"_a)
      .def_prop_ro("target", &Model::target)
      .def_prop_ro("metadata", &Model::metadata)
      .def_prop_ro("entries", &Model::entries)
      .def_prop_ro("functions", &Model::functions)
      .def("function", &Model::function, "name"_a)
      .def_prop_ro("state", &Model::state)
      .def_prop_ro("threads", &Model::threads)
      .def("inputs", &Model::inputs, "entry"_a)
      .def("outputs", &Model::outputs, "entry"_a)
      .def(
          "find_entry",
          [](const Model& model, const List& inputs, int access) {
            return model.find_entry(inputs, static_cast<Access>(access));
          },
          "inputs"_a, "access"_a)
      .def(
          "run",
          [](Model& model, const List& inputs, int kind) { return List(model.run(inputs, static_cast<Kind>(kind))); },
          "inputs"_a, "kind"_a)
      .def(
          "run_profiled",
          [](Model& model, const List& inputs, int kind) {
            auto [outputs, times] = model.run_profiled(inputs, static_cast<Kind>(kind));
            return std::make_pair(List(outputs), std::move(times));
          },
          "inputs"_a, "kind"_a)
      .def(
          "run_into", [](Model& model, const List& inputs, const List& outputs) { model.run_into(inputs, outputs); },
          "inputs"_a, "outputs"_a)
      .def(
          "run_async",
          [](Model& model, const List& inputs, const List& outputs, uintptr_t stream) {
            model.run_async(inputs, outputs, stream);
          },
          "inputs"_a, "outputs"_a, "stream"_a)
      .def(
          "empty_outputs",
          [](const Model& model, const List& inputs, int access, int kind) {
            return List(model.empty_outputs(inputs, static_cast<Access>(access), static_cast<Kind>(kind)));
          },
          "inputs"_a, "access"_a, "kind"_a)
      .def(
          "bind", [](Model& model, const List& inputs, const List& outputs) { return model.bind(inputs, outputs); },
          "inputs"_a, "outputs"_a);
}

}  // namespace

NB_MODULE(_runtime, module) {
  tw::python::register_status_error();
  module.def("version", [] { return std::string(tw::python::api().version_string()); });
  nb::class_<LoadOptions>(module, "LoadOptions")
      .def(nb::init<int, int, std::string, std::optional<std::string>>(), "threads"_a, "device"_a, "level"_a,
           "trusted_keys"_a = nb::none());
  bind_tensor(module);
  bind_state(module);
  nb::class_<Binding>(module, "Binding")
      .def("run", &Binding::run)
      .def("run_async", &Binding::run_async, "stream"_a)
      .def("measure", &Binding::measure, "count"_a);
  bind_model(module);
}
