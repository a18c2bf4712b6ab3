/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_fp16.h - fake_kernel.h, which is always there, has it all. */
