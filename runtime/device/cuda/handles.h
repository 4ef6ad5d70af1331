// Objects of the CUDA driver, under the types of cuda.h.
#pragma once

namespace tw::runtime::cuda {

using Result = int;  // CUresult
using Device = int;
using DevicePtr = unsigned long long;
using ContextHandle = struct ContextTag*;
using ModuleHandle = struct ModuleTag*;
using FunctionHandle = struct FunctionTag*;
using StreamHandle = struct StreamTag*;
using EventHandle = struct EventTag*;
using GraphHandle = struct GraphTag*;
using GraphNodeHandle = struct GraphNodeTag*;
using GraphExecHandle = struct GraphExecTag*;

}  // namespace tw::runtime::cuda
