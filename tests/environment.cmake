# Read by ctest before it runs anything: programs under test must give the same on every machine, so they get no folder
# for measured machine parameters (docs/performance/machine-model.md). A test that wants one sets its own.
set(ENV{TILEWRIGHT_CACHE_DIR} /dev/null)
# The same for what is measured of candidates: neither kept nor measured, so that equal compilations give equal bytes.
set(ENV{TILEWRIGHT_NO_MEASURE} 1)
set(ENV{TILEWRIGHT_DB} /dev/null)
