if(NOT TARGET tw-opt)
  add_subdirectory(tools/tw-opt)
endif()
