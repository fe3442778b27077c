#!/bin/sh
# PyPI's torch links 2.8 GB of CUDA libraries that a CPU engine never calls. Put one stub of 100 KB in their place: every
# symbol that torch wants from them, under the version that it wants, returning an error code. An empty library is not
# enough: the loader stops at a missing version ("Inconsistency detected … check_match").
# usage: cuda_stubs.sh SITE_PACKAGES
set -eu
lib=$1/torch/lib
tmp=$(mktemp -d)
nm -D --undefined-only "$lib"/libtorch_*.so "$lib"/libcaffe2_nvrtc.so |
  grep -oE '\b(cublas|cudnn|cusparse|cufft|cuFile|cupti|curand|cusolver|nccl|nvrtc|nvshmem)[A-Za-z0-9_]*(@[A-Za-z0-9_.]+)?' |
  sort -u >"$tmp/symbols"
sed 's/@.*//; s/.*/int &(void) { return 999; }/' "$tmp/symbols" | sort -u >"$tmp/stub.c"
awk -F@ '$2 { names[$2] = names[$2] $1 "; " } END { for (v in names) print v " { " names[v] "};" }' \
  "$tmp/symbols" >"$tmp/versions"
gcc -w -shared -fPIC -Wl,-soname,libcudastub.so -Wl,--version-script="$tmp/versions" -o "$lib/libcudastub.so" "$tmp/stub.c"
for name in libcublas.so.13 libcublasLt.so.13 libcudnn.so.9 libcufft.so.12 libcufile.so.0 libcupti.so.13 libcurand.so.10 \
            libcusolver.so.12 libcusparse.so.12 libcusparseLt.so.0 libnccl.so.2 libnvrtc.so.13 libnvshmem_host.so.3; do
  ln -sf libcudastub.so "$lib/$name"
done
rm -rf "$tmp"
