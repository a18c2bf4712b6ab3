// SPDX-License-Identifier: Apache-2.0
// bfloat16.hpp - bfloat16 for C++17, which has none: stored as TS_BF16 is, computed with as float.
#ifndef EXAMPLE_BFLOAT16_HPP
#define EXAMPLE_BFLOAT16_HPP

#include <cstdint>
#include <cstring>

// The upper half of a float, rounded to nearest, ties to even.
struct bfloat16 {
    std::uint16_t bits = 0;
    bfloat16() = default;
    explicit bfloat16(float f)
    {
        std::uint32_t b;
        std::memcpy(&b, &f, sizeof b);
        bits = static_cast<std::uint16_t>((b + 0x7fff + (b >> 16 & 1)) >> 16);
    }
    operator float() const
    {
        const std::uint32_t b = static_cast<std::uint32_t>(bits) << 16;
        float               f;
        std::memcpy(&f, &b, sizeof f);
        return f;
    }
};

#endif
