/* SPDX-License-Identifier: Apache-2.0 */
/* exp_table.c - 2^(i / 2048) for exp_simd.h, each the product of 2^(a / 64) and 2^(b / 2048).
 *
 * Products of rounded factors are within 3e-16. To multiply an entry by 2^n is to add n to its
 * exponent, 52 bits up; to multiply entry i by 2^n at once, (2048 n + i) is added 41 bits up. The
 * bits of i that this adds are subtracted here: entry 1 + f + m of mantissa f + m becomes 1 + m,
 * and that is below 1, where a bit of the mantissa counts half. No operation but the product
 * rounds. */
#include "exp_table.h"

#define ENTRY(a, high, b, low) 0.5 * (1 + ((high) * (low) - (32 * (a) + (b)) / 2048.0))
/* clang-format off */
#define ENTRIES(a, high) \
    ENTRY(a, high, 0, 0x1.0000000000000p0), ENTRY(a, high, 1, 0x1.00162f3904052p0), \
    ENTRY(a, high, 2, 0x1.002c605e2e8cfp0), ENTRY(a, high, 3, 0x1.0042936faa3d8p0), \
    ENTRY(a, high, 4, 0x1.0058c86da1c0ap0), ENTRY(a, high, 5, 0x1.006eff583fc3dp0), \
    ENTRY(a, high, 6, 0x1.0085382faef83p0), ENTRY(a, high, 7, 0x1.009b72f41a12bp0), \
    ENTRY(a, high, 8, 0x1.00b1afa5abcbfp0), ENTRY(a, high, 9, 0x1.00c7ee448ee02p0), \
    ENTRY(a, high, 10, 0x1.00de2ed0ee0f5p0), ENTRY(a, high, 11, 0x1.00f4714af41d3p0), \
    ENTRY(a, high, 12, 0x1.010ab5b2cbd11p0), ENTRY(a, high, 13, 0x1.0120fc089ff63p0), \
    ENTRY(a, high, 14, 0x1.0137444c9b5b5p0), ENTRY(a, high, 15, 0x1.014d8e7ee8d2fp0), \
    ENTRY(a, high, 16, 0x1.0163da9fb3335p0), ENTRY(a, high, 17, 0x1.017a28af25567p0), \
    ENTRY(a, high, 18, 0x1.019078ad6a19fp0), ENTRY(a, high, 19, 0x1.01a6ca9aac5f3p0), \
    ENTRY(a, high, 20, 0x1.01bd1e77170b4p0), ENTRY(a, high, 21, 0x1.01d37442d5070p0), \
    ENTRY(a, high, 22, 0x1.01e9cbfe113efp0), ENTRY(a, high, 23, 0x1.020025a8f6a35p0), \
    ENTRY(a, high, 24, 0x1.02168143b0281p0), ENTRY(a, high, 25, 0x1.022cdece68c4fp0), \
    ENTRY(a, high, 26, 0x1.02433e494b755p0), ENTRY(a, high, 27, 0x1.02599fb483385p0), \
    ENTRY(a, high, 28, 0x1.027003103b10ep0), ENTRY(a, high, 29, 0x1.0286685c9e059p0), \
    ENTRY(a, high, 30, 0x1.029ccf99d720ap0), ENTRY(a, high, 31, 0x1.02b338c811703p0)

const double ts_exp_table[TS_EXP_TABLE] = {
    ENTRIES(0, 0x1.0000000000000p0), ENTRIES(1, 0x1.02c9a3e778061p0),
    ENTRIES(2, 0x1.059b0d3158574p0), ENTRIES(3, 0x1.0874518759bc8p0),
    ENTRIES(4, 0x1.0b5586cf9890fp0), ENTRIES(5, 0x1.0e3ec32d3d1a2p0),
    ENTRIES(6, 0x1.11301d0125b51p0), ENTRIES(7, 0x1.1429aaea92de0p0),
    ENTRIES(8, 0x1.172b83c7d517bp0), ENTRIES(9, 0x1.1a35beb6fcb75p0),
    ENTRIES(10, 0x1.1d4873168b9aap0), ENTRIES(11, 0x1.2063b88628cd6p0),
    ENTRIES(12, 0x1.2387a6e756238p0), ENTRIES(13, 0x1.26b4565e27cddp0),
    ENTRIES(14, 0x1.29e9df51fdee1p0), ENTRIES(15, 0x1.2d285a6e4030bp0),
    ENTRIES(16, 0x1.306fe0a31b715p0), ENTRIES(17, 0x1.33c08b26416ffp0),
    ENTRIES(18, 0x1.371a7373aa9cbp0), ENTRIES(19, 0x1.3a7db34e59ff7p0),
    ENTRIES(20, 0x1.3dea64c123422p0), ENTRIES(21, 0x1.4160a21f72e2ap0),
    ENTRIES(22, 0x1.44e086061892dp0), ENTRIES(23, 0x1.486a2b5c13cd0p0),
    ENTRIES(24, 0x1.4bfdad5362a27p0), ENTRIES(25, 0x1.4f9b2769d2ca7p0),
    ENTRIES(26, 0x1.5342b569d4f82p0), ENTRIES(27, 0x1.56f4736b527dap0),
    ENTRIES(28, 0x1.5ab07dd485429p0), ENTRIES(29, 0x1.5e76f15ad2148p0),
    ENTRIES(30, 0x1.6247eb03a5585p0), ENTRIES(31, 0x1.6623882552225p0),
    ENTRIES(32, 0x1.6a09e667f3bcdp0), ENTRIES(33, 0x1.6dfb23c651a2fp0),
    ENTRIES(34, 0x1.71f75e8ec5f74p0), ENTRIES(35, 0x1.75feb564267c9p0),
    ENTRIES(36, 0x1.7a11473eb0187p0), ENTRIES(37, 0x1.7e2f336cf4e62p0),
    ENTRIES(38, 0x1.82589994cce13p0), ENTRIES(39, 0x1.868d99b4492edp0),
    ENTRIES(40, 0x1.8ace5422aa0dbp0), ENTRIES(41, 0x1.8f1ae99157736p0),
    ENTRIES(42, 0x1.93737b0cdc5e5p0), ENTRIES(43, 0x1.97d829fde4e50p0),
    ENTRIES(44, 0x1.9c49182a3f090p0), ENTRIES(45, 0x1.a0c667b5de565p0),
    ENTRIES(46, 0x1.a5503b23e255dp0), ENTRIES(47, 0x1.a9e6b5579fdbfp0),
    ENTRIES(48, 0x1.ae89f995ad3adp0), ENTRIES(49, 0x1.b33a2b84f15fbp0),
    ENTRIES(50, 0x1.b7f76f2fb5e47p0), ENTRIES(51, 0x1.bcc1e904bc1d2p0),
    ENTRIES(52, 0x1.c199bdd85529cp0), ENTRIES(53, 0x1.c67f12e57d14bp0),
    ENTRIES(54, 0x1.cb720dcef9069p0), ENTRIES(55, 0x1.d072d4a07897cp0),
    ENTRIES(56, 0x1.d5818dcfba487p0), ENTRIES(57, 0x1.da9e603db3285p0),
    ENTRIES(58, 0x1.dfc97337b9b5fp0), ENTRIES(59, 0x1.e502ee78b3ff6p0),
    ENTRIES(60, 0x1.ea4afa2a490dap0), ENTRIES(61, 0x1.efa1bee615a27p0),
    ENTRIES(62, 0x1.f50765b6e4540p0), ENTRIES(63, 0x1.fa7c1819e90d8p0),
};
/* clang-format on */
