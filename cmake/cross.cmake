# SPDX-License-Identifier: Apache-2.0
# cross.cmake - toolchain for the other instruction set, CROSS: x86_64 or aarch64. Programs of the
# build run under QEMU. Libraries are Debian's of the other architecture, which install side by side.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CROSS})
set(CMAKE_C_COMPILER ${CROSS}-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER ${CROSS}-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE ${CROSS}-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${CROSS})
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CROSS)
