// The embedding with portable code: the reference that the tables of all instruction sets match bit for bit.
#include "ckks/kernels/embedding.h"
#include "ckks/kernels/tables.h"

namespace cipherblas {

const EmbeddingKernels* scalar_embedding() {
    using embedding::Doubles1;
    static constexpr EmbeddingKernels kTable = {
        .name = "scalar",
        .encode = embedding::encode<Doubles1>,
        .decode = embedding::decode<Doubles1>,
    };
    return &kTable;
}

}  // namespace cipherblas
