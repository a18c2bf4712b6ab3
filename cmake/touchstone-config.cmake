# SPDX-License-Identifier: Apache-2.0
# touchstone-config.cmake - the CMake package: targets touchstone::touchstone and
# touchstone::touchstone_static.
#
# Its one component, cuda, is found where the library's CUDA module is installed.
set(touchstone_cuda_FOUND FALSE)
if(EXISTS "${CMAKE_CURRENT_LIST_DIR}/../../libtouchstone_cuda.so")
    set(touchstone_cuda_FOUND TRUE)
endif()
foreach(component IN LISTS touchstone_FIND_COMPONENTS)
    if(touchstone_FIND_REQUIRED_${component} AND NOT touchstone_${component}_FOUND)
        set(touchstone_FOUND FALSE)
        set(touchstone_NOT_FOUND_MESSAGE "component ${component}: unknown; expected cuda")
        if(component STREQUAL cuda)
            set(touchstone_NOT_FOUND_MESSAGE
                "component cuda: no libtouchstone_cuda.so; build Touchstone with -DTS_CUDA=ON")
        endif()
        return()
    endif()
endforeach()
include("${CMAKE_CURRENT_LIST_DIR}/touchstone-targets.cmake")
