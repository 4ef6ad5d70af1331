"""Facts of the machine that every table carries."""
import os
import pathlib
import platform
import subprocess


def processor_fields():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return {}
    pairs = [line.split(":", 1) for line in lines if ":" in line]
    return {key.strip(): value.strip() for key, value in reversed(pairs)}


def facts():
    fields = processor_fields()
    flags = fields.get("flags", "").split()
    width = next((name for name, flag in (("AVX-512", "avx512f"), ("AVX2", "avx2")) if flag in flags), "SSE2")
    return {"processor": fields.get("model name", platform.machine()), "vectors": width,
            "clock_mhz": fields.get("cpu MHz", "unknown"), "cores": len(os.sched_getaffinity(0)),
            "load": round(os.getloadavg()[0], 2)}


def gpu_facts():
    """The same fields for the GPU: its name, driver and clock."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm", "--format=csv,noheader"]
    try:
        text = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0]
        name, driver, clock = (part.strip() for part in text.split(","))
    except (OSError, subprocess.CalledProcessError, IndexError):
        raise SystemExit("not run: no NVIDIA GPU")
    return {"processor": name, "vectors": f"driver {driver}", "clock_mhz": clock.removesuffix(" MHz"),
            "cores": len(os.sched_getaffinity(0)), "load": round(os.getloadavg()[0], 2)}
