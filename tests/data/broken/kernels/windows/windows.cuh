#pragma once
#include <cuda.h>
#include "../hopper/async.cuh"

#define WINDOWS(to, map, w, h, n, s, r, bar) asm volatile( \
    "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes " \
    "[%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" \
    :: "r"(AT(to)), "l"(&map), "r"(0), "r"(w), "r"(h), "r"(n), "r"(AT(bar)), \
       "h"((short)(s)), "h"((short)(r)) : "memory")
#define ADDERS() asm volatile("bar.sync 1, 64;" ::: "memory")
