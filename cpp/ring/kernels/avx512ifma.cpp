#include "ring/kernels/avx512ifma_ntt.h"
#include "ring/kernels/tables.h"

namespace cipherblas {

const Kernels* avx512ifma_table() {
    static const Kernels table = [] {
        Kernels t = *scalar_table();
        t.name = "avx512ifma";
        t.ntt = avx512ifma::ntt;
        t.intt = avx512ifma::intt;
        return t;
    }();
    return &table;
}

}  // namespace cipherblas
