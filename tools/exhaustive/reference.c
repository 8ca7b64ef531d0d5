/* roundToIntegral (IEEE 754-2019, 5.9) of float32 and float64 patterns, in integers only.
 *
 * A magnitude m (the pattern without its sign) of 1 or more, with E in its exponent
 * field, has shift = bias + p - E bits behind the binary point, its lowest ones.
 * Clearing them truncates; adding one unit of the bit above them goes on to the next
 * integer, and where that carries, it carries into the exponent field as it should.
 * That bit is also the integer's parity: for E = bias it is the exponent's own lowest
 * bit, 1 because the bias is odd, like the integer 1 that it then stands for.
 */
#include <stddef.h>
#include <stdint.h>

enum rounding { TIES_TO_EVEN, TIES_TO_AWAY, TOWARD_ZERO, TOWARD_POSITIVE, TOWARD_NEGATIVE };

#define DEFINE(UINT, WIDTH, P, BIAS)                                                        \
    static inline UINT round_one_##WIDTH(enum rounding rounding, UINT x)                    \
    {                                                                                       \
        const UINT one = (UINT)(BIAS) << (P), half_value = (UINT)((BIAS) - 1) << (P);       \
        const UINT sign = x >> ((WIDTH) - 1), m = x & ~((UINT)1 << ((WIDTH) - 1));          \
        const UINT field = m >> (P);                                                        \
        /* Any shift will do where its result is not chosen below. */                       \
        const UINT shift = ((BIAS) + (P) - field) & ((WIDTH) - 1);                          \
        const UINT unit = (UINT)1 << shift, rest = m & (unit - 1), half = unit >> 1;        \
        UINT up, up_below_one;                                                              \
        switch (rounding) {                                                                 \
        case TIES_TO_EVEN:                                                                  \
            up = (UINT)(rest > half) | ((UINT)(rest == half) & (m >> shift));               \
            up_below_one = m > half_value;                                                  \
            break;                                                                          \
        case TIES_TO_AWAY:                                                                  \
            up = rest >= half;                                                              \
            up_below_one = m >= half_value;                                                 \
            break;                                                                          \
        case TOWARD_POSITIVE:                                                               \
            up = (UINT)(rest != 0) & (sign ^ 1);                                            \
            up_below_one = (UINT)(m != 0) & (sign ^ 1);                                     \
            break;                                                                          \
        case TOWARD_NEGATIVE:                                                               \
            up = (UINT)(rest != 0) & sign;                                                  \
            up_below_one = (UINT)(m != 0) & sign;                                           \
            break;                                                                          \
        default: /* TOWARD_ZERO */                                                          \
            up = up_below_one = 0;                                                          \
        }                                                                                   \
        const UINT above_one = (m - rest) + (up & 1) * unit;                                \
        const UINT below_one = (0 - up_below_one) & one;                                    \
        const UINT finite = m < one ? below_one : above_one;                                \
        return (sign << ((WIDTH) - 1)) | (field >= (BIAS) + (P) ? m : finite);              \
    }                                                                                       \
                                                                                            \
    /* Round count patterns from in to out, which share nothing. */                         \
    void round_##WIDTH(int rounding, size_t count, const UINT *restrict in,                 \
                       UINT *restrict out)                                                  \
    {                                                                                       \
        /* One loop a direction, so that the compiler makes vector code of each. */         \
        switch (rounding) {                                                                 \
            LOOP(WIDTH, TIES_TO_EVEN)                                                       \
            LOOP(WIDTH, TIES_TO_AWAY)                                                       \
            LOOP(WIDTH, TOWARD_ZERO)                                                        \
            LOOP(WIDTH, TOWARD_POSITIVE)                                                    \
            LOOP(WIDTH, TOWARD_NEGATIVE)                                                    \
        }                                                                                   \
    }

#define LOOP(WIDTH, ROUNDING)                                                               \
    case ROUNDING:                                                                          \
        for (size_t i = 0; i < count; i++)                                                  \
            out[i] = round_one_##WIDTH(ROUNDING, in[i]);                                    \
        break;

DEFINE(uint32_t, 32, 23, 127)
DEFINE(uint64_t, 64, 52, 1023)
