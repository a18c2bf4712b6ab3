/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.c - the GPUs.
 *
 * Data sheets give GB of memory and mean about as many GiB, since chips come in powers of two.
 * Rates are those of dense matmul on tensor cores with float32 accumulation; if a sheet gives only
 * the sparse rate, half of it. */
#include "plan.h"

const ts_plan_gpu ts_plan_gpus[] = {
    { "rtx-3090", 24, 936, 71.0, 0, 284.0,
      "NVIDIA Ampere GA102 architecture white paper v2.0, appendix A; no FP8" },
    { "rtx-4090", 24, 1008, 165.2, 330.3, 660.6,
      "NVIDIA Ada GPU architecture white paper v2.01, appendix A; FP8 with FP32 accumulate" },
    { "rtx-5090", 32, 1792, 209.5, 419.0, 838.0,
      "NVIDIA RTX Blackwell GPU architecture white paper v1.1, appendix A; FP8 with FP32 "
      "accumulate" },
    { "rtx-a6000", 48, 768, 154.8, 0, 309.7,
      "NVIDIA RTX A6000 data sheet; rates of the Ampere GA102 white paper v2.0, appendix C; no "
      "FP8" },
    { "l4", 24, 300, 121.0, 242.5, 242.5,
      "NVIDIA L4 data sheet; its rates are the sparse ones, halved" },
    { "l40s", 48, 864, 362.05, 733.0, 733.0, "NVIDIA L40S data sheet" },
    { "a100-40gb", 40, 1555, 312.0, 0, 624.0, "NVIDIA A100 data sheet, 40GB; no FP8" },
    { "a100-80gb", 80, 2039, 312.0, 0, 624.0, "NVIDIA A100 data sheet, 80GB SXM; no FP8" },
    { "h100", 80, 3350, 989.4, 1978.9, 1978.9,
      "NVIDIA H100 data sheet, SXM; rates of the H100 white paper, dense" },
    { "h200", 141, 4800, 989.4, 1978.9, 1978.9,
      "NVIDIA H200 data sheet, SXM; its rates are the sparse ones, halved" },
    { "b200", 180, 8000, 2250.0, 4500.0, 4500.0,
      "NVIDIA DGX B200 data sheet (1440 GB, 64 TB/s, 72 PFLOPS sparse FP8: an eighth, dense); BF16 "
      "and INT8: Blackwell architecture brief, HGX B200" },
    { "gb200", 186, 8000, 2500.0, 5000.0, 5000.0,
      "NVIDIA GB200 NVL72 data sheet, one of its GPUs; its rates are the sparse ones, halved" },
    { "mi300x", 192, 5300, 1307.4, 2614.9, 2614.9, "AMD Instinct MI300X data sheet" },
    { 0 },
};
