// Failures of the two C interfaces as exceptions, which Python sees as those of tilewright/_errors.py.
#pragma once
#include <nanobind/nanobind.h>

#include <string>
#include <utility>

namespace tw::python {

/// A failed call: `origin` names the function of tilewright/_errors.py that makes the exception, from a number, a
/// message and a JSON text of details.
struct StatusError {
  const char* origin;
  int code = 0;
  std::string message;
  std::string details = "{}";
};

/// Makes StatusError known to nanobind; once in each module.
inline void register_status_error() {
  nanobind::register_exception_translator([](const std::exception_ptr& pending, void*) {
    try {
      std::rethrow_exception(pending);
    } catch (const StatusError& error) {
      const nanobind::object make = nanobind::module_::import_("tilewright._errors").attr(error.origin);
      const nanobind::object made = make(error.code, error.message, error.details);
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
    }
  });
}

}  // namespace tw::python
