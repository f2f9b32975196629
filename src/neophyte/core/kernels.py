"""Random words and elementary functions for all worlds: IEEE operations in a fixed order, the same bits everywhere.

Nothing here calls the C library. Additions, multiplications, divisions and square roots round the same way on every
IEEE machine, and the compiler may not reorder or fuse them, so every result is a function of its arguments alone.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from neophyte.core.jit import inlined, kernel

# Philox4x64-10: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
_PHILOX_M0 = np.uint64(0xD2E7470EE14C6C93)
_PHILOX_M1 = np.uint64(0xCA5A826395121157)
_PHILOX_W0 = np.uint64(0x9E3779B97F4A7C15)
_PHILOX_W1 = np.uint64(0xBB67AE8584CAA73B)


@intrinsic
def multiply_high(typing_context, a, b):
    """The high 64 bits of the 128-bit product of two uint64."""
    signature = types.uint64(types.uint64, types.uint64)

    def generate(context, builder, signature, arguments):
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return signature, generate


@inlined
def philox_block(key0, key1, counter):
    """Four words of NumPy's `Philox(key=(key0, key1))`: those of the low counter word `counter` (from 1)."""
    c0, c1, c2, c3 = np.uint64(counter), np.uint64(0), np.uint64(0), np.uint64(0)
    for _ in range(10):
        high0, low0 = multiply_high(_PHILOX_M0, c0), _PHILOX_M0 * c0
        high1, low1 = multiply_high(_PHILOX_M1, c2), _PHILOX_M1 * c2
        c0, c1, c2, c3 = high1 ^ c1 ^ key0, low1, high0 ^ c3 ^ key1, low0
        key0 += _PHILOX_W0
        key1 += _PHILOX_W1
    return c0, c1, c2, c3


@kernel
def philox_words(key, position, out):
    """Fill uint64 `out` with the words `position`, `position` + 1, ... of the stream with the uint64 (2,) `key`."""
    filled = 0
    block = np.uint64(position // 4 + 1)
    skip = position % 4
    while filled < out.size:
        words = philox_block(key[0], key[1], block)
        if skip == 0 and filled + 4 <= out.size:
            out[filled], out[filled + 1], out[filled + 2], out[filled + 3] = words
            filled += 4
        else:
            for lane in range(4):
                if lane >= skip and filled < out.size:
                    out[filled] = words[lane]
                    filled += 1
            skip = 0
        block += np.uint64(1)


@kernel
def uniform_from_words(words):
    """float64 on [0, 1): the high 53 bits of each uint64 word over 2^53."""
    out = np.empty(words.size, dtype=np.float64)
    for i in range(words.size):
        out[i] = np.float64(words[i] >> np.uint64(11)) * 2.0**-53
    return out


@kernel
def bounded_integers(key, position, bound, out):
    """Fill int64 `out` with unbiased integers below uint64 `bound`; return the position after the last word taken."""
    word = np.empty(1, dtype=np.uint64)
    threshold = (np.uint64(0) - bound) % bound
    for i in range(out.size):
        while True:
            philox_words(key, position, word)
            position += 1
            if word[0] * bound >= threshold:
                break
        out[i] = np.int64(multiply_high(word[0], bound))
    return position


@kernel
def shuffle(key, position, items):
    """Permute int64 `items` uniformly in place (Fisher-Yates from the end); return the position after the last word."""
    drawn = np.empty(1, dtype=np.int64)
    for last in range(items.size - 1, 0, -1):
        position = bounded_integers(key, position, np.uint64(last + 1), drawn)
        other = drawn[0]
        items[last], items[other] = items[other], items[last]
    return position


@inlined
def _scramble(x):
    """A bijection of uint64 whose bits all depend on those of x (finaliser of SplitMix64, G. Steele et al., 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def permute(round_keys, size, positions, out):
    """Fill int64 `out` with the images of int64 `positions` under a permutation of range(size), in constant memory.

    An alternating Feistel network over the bits of size - 1, a round for each uint64 key: a bijection whatever its
    round function. An image outside the range is mapped again until it lies inside, which keeps it a bijection.
    """
    bits = 0
    while (np.int64(1) << bits) < size:
        bits += 1
    half = np.uint64(bits >> 1)
    low_mask = (np.uint64(1) << half) - np.uint64(1)
    high_mask = (np.uint64(1) << np.uint64(bits - (bits >> 1))) - np.uint64(1)
    for i in range(positions.size):
        x = np.uint64(positions[i])
        while True:
            low, high = x & low_mask, x >> half
            for r in range(round_keys.size):
                if r & 1:
                    high ^= _scramble(low + round_keys[r]) & high_mask
                else:
                    low ^= _scramble(high + round_keys[r]) & low_mask
            x = (high << half) | low
            if x < np.uint64(size):
                break
        out[i] = np.int64(x)


@kernel
def log64(x):
    """Natural logarithm of a positive normal float64, to within one unit in the last place.

    x = 2^k m with m in [sqrt(1/2), sqrt(2)), then the odd series of log((1 + s) / (1 - s)) in s = (m - 1) / (m + 1)
    with minimax coefficients (those of the freely distributable math library by Sun Microsystems).
    """
    bits = np.float64(x).view(np.int64)
    exponent = (bits >> 52) - 1023
    mantissa = np.int64((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000).view(np.float64)
    if mantissa > 1.4142135623730951:
        mantissa *= 0.5
        exponent += 1
    f = mantissa - 1.0
    s = f / (2.0 + f)
    z = s * s
    tail = 0.1818357216161805 + z * (0.15313837699209373 + z * 0.14798198605116586)
    tail = 0.3999999999940942 + z * (0.2857142874366239 + z * (0.22222198432149784 + z * tail))
    tail = z * (0.6666666666666735 + z * tail)
    half_square = 0.5 * f * f
    k = np.float64(exponent)
    return k * 6.93147180369123816490e-01 - (
        (half_square - (s * (half_square + tail) + k * 1.90821492927058770002e-10)) - f
    )


@inlined
def _normal_center(q):
    """Inverse normal distribution at 1/2 + q, |q| <= 0.425 (AS 241, M. Wichura 1988, PPND16)."""
    r = 0.180625 - q * q
    top = 3.3430575583588128105e4 + r * 2.5090809287301226727e3
    top = 1.3731693765509461125e4 + r * (4.5921953931549871457e4 + r * (6.7265770927008700853e4 + r * top))
    top = 3.3871328727963666080 + r * (1.3314166789178437745e2 + r * (1.9715909503065514427e3 + r * top))
    low = 2.8729085735721942674e4 + r * 5.2264952788528545610e3
    low = 5.3941960214247511077e3 + r * (2.1213794301586595867e4 + r * (3.9307895800092710610e4 + r * low))
    low = 1.0 + r * (4.2313330701600911252e1 + r * (6.8718700749205790830e2 + r * low))
    return q * top / low


@kernel
def _normal_tail(p):
    """Minus the inverse normal distribution at p, 0 < p < 0.075 (AS 241, PPND16)."""
    r = math.sqrt(-log64(p))
    if r <= 5.0:
        r -= 1.6
        top = 2.27238449892691845833e-2 + r * 7.74545014278341407640e-4
        top = 3.64784832476320460504 + r * (1.27045825245236838258 + r * (2.41780725177450611770e-1 + r * top))
        top = 1.42343711074968357734 + r * (4.63033784615654529590 + r * (5.76949722146069140550 + r * top))
        low = 5.47593808499534494600e-4 + r * 1.05075007164441684324e-9
        low = 6.89767334985100004550e-1 + r * (1.48103976427480074590e-1 + r * (1.51986665636164571966e-2 + r * low))
        low = 1.0 + r * (2.05319162663775882187 + r * (1.67638483018380384940 + r * low))
    else:
        r -= 5.0
        top = 2.71155556874348757815e-5 + r * 2.01033439929228813265e-7
        top = 2.96560571828504891230e-1 + r * (2.65321895265761230930e-2 + r * (1.24266094738807843860e-3 + r * top))
        top = 6.65790464350110377720 + r * (5.46378491116411436990 + r * (1.78482653991729133580 + r * top))
        low = 1.42151175831644588870e-7 + r * 2.04426310338993978564e-15
        low = 1.48753612908506148525e-2 + r * (7.86869131145613259100e-4 + r * (1.84631831751005468180e-5 + r * low))
        low = 1.0 + r * (5.99832206555887937690e-1 + r * (1.36929880922735805310e-1 + r * low))
    return top / low


@inlined
def open_uniform(word):
    """float64 in the middle of one of 2^52 equal cells of (0, 1), from the high 52 bits of a uint64 word.

    The bits are the mantissa of a number in [1, 2): unlike a conversion from integers, this vectorises everywhere.
    """
    return np.uint64((word >> np.uint64(12)) | np.uint64(0x3FF0000000000000)).view(np.float64) - 1.0 + 2.0**-53


@kernel
def fill_normal(words, out):
    """Fill float `out` with standard normals, one from each uint64 word: the inverse distribution of its high 52 bits.

    A first, branch-free pass serves the 85 % of the words near the centre, a second one mends the tails.
    """
    for i in range(out.size):
        out[i] = _normal_center(open_uniform(words[i]) - 0.5)
    for i in range(out.size):
        p = open_uniform(words[i])
        if p < 0.075:
            out[i] = -_normal_tail(p)
        elif p > 0.925:
            out[i] = _normal_tail(1.0 - p)


@kernel
def normal_from_words(words):
    """float64 standard normals, one from each uint64 word (see `fill_normal`)."""
    out = np.empty(words.size, dtype=np.float64)
    fill_normal(words, out)
    return out


_LOG2_E = np.float32(1.44269504088896341)
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(-2.12194440e-4)
_ROUND = np.float32(12582912.0)  # 1.5 * 2^23: adding it rounds a small float32 to an integer
_ROUND_BITS = np.int32(0x4B400000)
_E0, _E1, _E2 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
_E3, _E4, _E5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)
_EXP_LOW, _EXP_HIGH = np.float32(-87.0), np.float32(88.0)
_ONE, _TWO = np.float32(1.0), np.float32(2.0)


@inlined
def exp32(x):
    """exp of a float32, relative error below 2e-7; the argument is clamped to [-87, 88]. Written to vectorise."""
    x = _EXP_LOW if x < _EXP_LOW else x
    x = _EXP_HIGH if x > _EXP_HIGH else x
    rounded = x * _LOG2_E + _ROUND
    k = rounded - _ROUND
    r = x - k * _LN2_HIGH
    r = r - k * _LN2_LOW
    y = ((((_E0 * r + _E1) * r + _E2) * r + _E3) * r + _E4) * r + _E5
    y = y * (r * r) + r + _ONE
    bits = np.float32(rounded).view(np.int32)
    power = np.int32(np.int32(bits - _ROUND_BITS + np.int32(127)) << np.int32(23))
    return y * power.view(np.float32)


@inlined
def tanh32(x):
    """tanh of a float32, absolute error below 2e-7: 1 - 2 / (exp(2 x) + 1)."""
    return _ONE - _TWO / (exp32(_TWO * x) + _ONE)
