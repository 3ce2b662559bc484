#!/usr/bin/env bash
# Real consumers load what we write: llama.cpp through node-llama-cpp, PEFT, and PyPI gguf. Sets everything up itself:
# 700 MB of node_modules here, 6 GB of Python in target/interop/venv. Without a network or a tool it says so and passes,
# unless AMV_TEST_STRICT=1.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=__test__/interop
out=target/interop/files
venv=target/interop/venv

skip() {
  if [[ ${AMV_TEST_STRICT:-} == 1 ]]; then
    echo "error: $*" >&2
    exit 1
  fi
  echo "skipped: $*"
  exit 0
}

for tool in cargo node npm python3; do
  command -v "$tool" >/dev/null || skip "$tool is missing"
done
[[ $(uname -sm) == "Linux x86_64" ]] || skip "node-llama-cpp is pinned to its linux-x64 build here"

# Only the packages that are pinned for this platform run: no scripts, so nothing is compiled or downloaded later.
npm ci --prefix "$here" --ignore-scripts --no-audit --no-fund || skip "node-llama-cpp cannot be installed"
if ! cmp --silent "$here/requirements.txt" "$venv/installed.txt"; then
  python3 -m venv "$venv" || skip "python3 -m venv does not work"
  "$venv/bin/pip" install --quiet --requirement "$here/requirements.txt" || skip "PEFT and gguf cannot be installed"
  cp "$here/requirements.txt" "$venv/installed.txt"
fi

rm -rf "$out"
mkdir -p "$out"
cargo run --quiet --example interop -- "$out"
node "$here/check_llamacpp.js" "$out"
HF_HUB_OFFLINE=1 "$venv/bin/python" "$here/check_peft.py" "$out"
"$venv/bin/python" "$here/check_gguf.py" "$out"
npm run --silent build
node "$here/check_hub.js" "$venv/bin/python" "$out/hub"
for resumed in "--max-steps 4 --quiet" "--max-steps 7 --quiet --resume auto"; do
  # shellcheck disable=SC2086
  node bin/amv-train.js train --seq-len 64 --eval-split 0.05 --eval-every 3 --output "$out/board/" --tensorboard "$out/board-events" $resumed
done
"$venv/bin/python" "$here/check_tensorboard.py" "$out/board-events" "$out/board.amv/metrics.jsonl"
