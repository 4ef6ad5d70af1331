// tilewright._compiler: the C interface of the compiler (tilewright/compiler.h), as tilewright/_compile.py uses it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "compile.h"
#include "status.h"

namespace nb = nanobind;
using namespace nb::literals;
using tw::python::CommandResult;
using tw::python::Compilation;
using tw::python::CompileOptions;
using tw::python::OptionRow;

NB_MODULE(_compiler, module) {
  tw::python::register_status_error();
  module.def("version", [] { return std::string(tw::python::compiler_api().version_string()); });
  nb::class_<OptionRow>(module, "OptionRow")
      .def_ro("name", &OptionRow::name)
      .def_ro("kind", &OptionRow::kind)
      .def_ro("choices", &OptionRow::choices)
      .def_ro("initial", &OptionRow::initial)
      .def_ro("help", &OptionRow::help)
      .def_ro("is_repeatable", &OptionRow::is_repeatable);
  module.def("option_rows", &tw::python::option_rows);
  module.def("target_names", &tw::python::target_names);
  nb::class_<CompileOptions>(module, "CompileOptions")
      .def(nb::init<>())
      .def("set", &CompileOptions::set, "name"_a, "text"_a)
      .def("set_constant", &CompileOptions::set_constant, "name"_a, "array"_a)
      .def("set_state", &CompileOptions::set_state, "input"_a, "output"_a, "initial"_a)
      .def("set_plan", &CompileOptions::set_plan, "text"_a);
  nb::class_<Compilation>(module, "Compilation")
      .def_prop_ro("artefact", &Compilation::artefact)
      .def_prop_ro("plan", &Compilation::plan)
      .def_prop_ro("report", &Compilation::report);
  using Progress = nb::typed<nb::callable, nb::object(std::string, int64_t, int64_t, std::string)>;
  module.def(
      "compile_file",
      [](const std::string& path, const CompileOptions& options, const Progress& progress) {
        return tw::python::compile_file(path, options, progress);
      },
      "path"_a, "options"_a, "progress"_a);
  module.def(
      "compile_bytes",
      [](nb::handle model, const std::string& data_directory, const CompileOptions& options, const Progress& progress) {
        return tw::python::compile_bytes(model, data_directory, options, progress);
      },
      "model"_a, "data_directory"_a, "options"_a, "progress"_a);
  module.def(
      "refit",
      [](nb::handle artefact, const nb::typed<nb::dict, std::string, nb::any>& weights, const Progress& progress) {
        return tw::python::refit(artefact, weights, progress);
      },
      "artefact"_a, "weights"_a, "progress"_a);
  nb::class_<CommandResult>(module, "CommandResult")
      .def_ro("exit_code", &CommandResult::exit_code)
      .def_ro("output", &CommandResult::output)
      .def_ro("error", &CommandResult::error);
  module.def(
      "call_command",
      [](const std::vector<std::string>& words, const Progress& progress) {
        return tw::python::call_command(words, progress);
      },
      "words"_a, "progress"_a);
}
