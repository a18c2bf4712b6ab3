/* SPDX-License-Identifier: Apache-2.0 */
/* adamw_list.h - the mutants of adamw: bug, name, the check that must catch it, and the family
 * whose cases must do so (NULL: normal). */
#ifndef TS_MUTANT_ADAMW_LIST_H
#define TS_MUTANT_ADAMW_LIST_H

/* clang-format off */
#define STEP(M)                                                         \
    M(A_HONEST, "control", NONE, NULL)                                  \
    /* the moments */                                                   \
    M(A_NO_MOMENTUM, "no_first_moment", VALUE, NULL)                    \
    M(A_REST_1, "gradient_added_whole", VALUE, NULL)                    \
    M(A_SQUARE_OF_M, "second_moment_of_the_first", VALUE, NULL)         \
    M(A_BETAS_SWAPPED, "betas_exchanged", VALUE, NULL)                  \
    M(A_NESTEROV, "nesterov", VALUE, NULL)                              \
    M(A_AMSGRAD, "largest_second_moment", VALUE, "quiet")               \
    M(A_BELIEF, "deviation_squared", VALUE, NULL)                       \
    M(A_REST_FLOAT, "rest_of_a_float_beta", VALUE, NULL)                \
    M(A_OLD_MOMENTS, "step_by_the_moments_before", VALUE, NULL)         \
    M(A_MOMENTS_16, "moments_in_16_bits", VALUE, NULL)                  \
    M(A_M_UNWRITTEN, "first_moment_kept", VALUE, NULL)                  \
    M(A_V_UNWRITTEN, "second_moment_kept", VALUE, NULL)                 \
    /* the biases */                                                    \
    M(A_NO_BIAS_1, "first_bias_ignored", VALUE, NULL)                   \
    M(A_NO_BIAS_2, "second_bias_ignored", VALUE, NULL)                  \
    M(A_BIAS_UNROOTED, "second_bias_outside_the_root", VALUE, NULL)     \
    M(A_STEP_FROM_0, "step_counts_from_0", VALUE, "first")              \
    M(A_STEP_LATER, "step_counts_from_2", VALUE, NULL)                  \
    M(A_STEP_MOST, "step_no_more_than_1000", VALUE, NULL)               \
    M(A_BIAS_KEPT, "moments_kept_without_bias", VALUE, NULL)            \
    /* eps */                                                           \
    M(A_EPS_INSIDE, "eps_inside_the_root", VALUE, NULL)                 \
    M(A_EPS_EARLY, "eps_before_the_bias", VALUE, NULL)                  \
    M(A_NO_EPS, "eps_ignored", VALUE, "zeros")                          \
    M(A_EPS_FIXED, "eps_always_1e_8", VALUE, NULL)                      \
    M(A_EPS_FLOAT, "eps_as_float", VALUE, "zeros")                      \
    /* the decay */                                                     \
    M(A_COUPLED, "decay_in_the_gradient", VALUE, NULL)                  \
    M(A_NO_DECAY, "decay_ignored", VALUE, NULL)                         \
    M(A_ALL_DECAY, "decay_of_all", VALUE, NULL)                         \
    M(A_OTHERS_DECAY, "decay_of_the_others", VALUE, NULL)               \
    M(A_DECAY_NO_LR, "decay_without_rate", VALUE, NULL)                 \
    M(A_DECAY_AFTER, "decay_after_the_step", VALUE, NULL)               \
    /* the scale */                                                     \
    M(A_NO_SCALE, "scale_ignored", VALUE, NULL)                         \
    M(A_SCALE_ONCE, "scale_not_squared", VALUE, NULL)                   \
    M(A_SCALE_LATE, "scale_of_the_step", VALUE, NULL)                   \
    M(A_NOT_SKIPPED, "nan_scale_not_skipped", VALUE, "skip")            \
    M(A_SKIPS_INF, "infinite_scale_skipped", VALUE, "scale_inf")        \
    M(A_SCALE_MOST, "scale_no_more_than_1e30", VALUE, "scale_inf")      \
    M(A_SKIPS_SOME, "nan_scale_fades_moments", VALUE, "skip")           \
    /* range, NaN */                                                    \
    M(A_OVERFLOW, "square_overflows", VALUE, "huge")                    \
    M(A_UNDERFLOW, "square_vanishes", VALUE, "small")                   \
    M(A_ROOT_ROUNDED, "root_of_the_kept_moment", VALUE, "huge")         \
    M(A_ZERO_V, "zero_moment_takes_no_step", VALUE, "first")            \
    M(A_QUIET, "zero_gradient_takes_no_step", VALUE, "quiet")           \
    M(A_NAN_0, "nan_gradient_is_0", VALUE, "nonfinite")                      \
    M(A_NAN_LEAKS, "nan_reaches_the_next", VALUE, "nonfinite")               \
    M(A_CLAMPED, "gradient_no_more_than_1e10", VALUE, "huge")           \
    /* the master */                                                    \
    M(A_NO_MASTER, "master_ignored", VALUE, NULL)                       \
    M(A_MASTER_KEPT, "master_not_written", VALUE, NULL)                 \
    M(A_MASTER_16, "master_in_16_bits", VALUE, NULL)                    \
    M(A_W_KEPT, "w_not_written", VALUE, NULL)                           \
    M(A_CUT, "w_towards_zero", VALUE, NULL)                             \
    M(A_GRAD_16, "gradient_in_16_bits", VALUE, NULL)                    \
    /* shapes, memory, refusals */                                      \
    M(A_NO_TAIL, "tail_dropped", VALUE, NULL)                           \
    M(A_FIRST_65536, "first_65536", VALUE, NULL)                        \
    M(A_WRITE_PAST, "writes_past", PAST, NULL)                          \
    M(A_WRITE_GRAD, "gradient_scaled_in_place", INPUT, NULL)            \
    M(A_TAKES_BETA, "accepts_beta_of_1", REFUSAL, NULL)                 \
    M(A_TAKES_EPS, "accepts_eps_of_0", REFUSAL, NULL)                   \
    M(A_TAKES_STEP, "accepts_step_0", REFUSAL, NULL)                    \
    M(A_TAKES_DECAY, "accepts_decay_past_n", REFUSAL, NULL)             \
    M(A_TAKES_MASTER, "accepts_master_of_f32", REFUSAL, NULL)           \
    M(A_WRITES_FIRST, "writes_then_refuses", REFUSAL, NULL)
/* clang-format on */

#endif
