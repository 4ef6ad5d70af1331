// libtilewright holds the archive of src/driver as a whole; a shared library needs one source of its own.
