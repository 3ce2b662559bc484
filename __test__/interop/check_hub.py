"""huggingface_hub's side of check_hub.js: finds a model in the shared cache, or fetches one into it."""

import sys
from pathlib import Path

from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download

task, repo, *rest = sys.argv[1:]
if task == "fetch":
    print(snapshot_download(repo))
else:
    (expected,) = rest
    assert snapshot_download(repo) == expected  # HF_HUB_OFFLINE is set
    weights = Path(hf_hub_download(repo, "model.safetensors"))
    assert weights.parent == Path(expected), weights
    assert weights.read_bytes() == bytes([3]) * 100_000
    report = scan_cache_dir()
    assert not report.warnings, report.warnings
    (found,) = [found for found in report.repos if found.repo_id == repo]
    (revision,) = found.revisions
    assert revision.refs == {"main"}, revision
    names = {file.file_name for file in revision.files}
    assert names == {"config.json", "tokenizer.json", "model.safetensors"}, names
