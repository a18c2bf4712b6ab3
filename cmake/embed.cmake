# SPDX-License-Identifier: Apache-2.0
# embed.cmake - cmake -DNAME=symbol "-DFILES=a;b" -DOUT=x.c -P embed.cmake: files, one after the other, as a C string.
set(hex "")
foreach(f ${FILES})
    file(READ ${f} one HEX)
    string(APPEND hex "${one}")
endforeach()
string(REGEX REPLACE "(................................................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
file(WRITE ${OUT} "extern const char ${NAME}[];\nconst char ${NAME}[] = {\n${hex}0 };\n")
