/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_bf16.h - fake_kernel.h, which is always there, has it all. */
