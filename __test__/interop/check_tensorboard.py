"""TensorBoard reads the event files of a run that was stopped and went on, and finds the numbers of metrics.jsonl.

python check_tensorboard.py LOGDIR METRICS
"""

import json
import math
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

logdir, metrics = sys.argv[1:]
events = [json.loads(line) for line in open(metrics)]
board = EventAccumulator(logdir, size_guidance={"scalars": 0})
board.Reload()

TAGS = {
    "train/loss": ("step", "loss"),
    "train/lr": ("step", "lr"),
    "train/grad_norm": ("step", "gradNorm"),
    "train/tokens_per_second": ("step", "tokensPerSecond"),
    "train/memory_bytes": ("step", "memoryBytes"),
    "eval/loss": ("eval", "loss"),
    "eval/perplexity": ("eval", "perplexity"),
}
assert set(board.Tags()["scalars"]) == set(TAGS), board.Tags()
for tag, (kind, member) in TAGS.items():
    ours = [(event["step"], event[member]) for event in events if event["type"] == kind]
    theirs = [(scalar.step, scalar.value) for scalar in board.Scalars(tag)]
    assert [step for step, _ in ours] == [step for step, _ in theirs], (tag, ours, theirs)
    for (_, a), (_, b) in zip(ours, theirs):
        assert math.isclose(a, b, rel_tol=1e-6), (tag, a, b)  # TensorBoard's are f32
(settings,) = board.Tags()["tensors"]
text = board.Tensors(settings)[-1].tensor_proto.string_val[0].decode()
assert "| seqLen | 64 |" in text, text
print(f"tensorboard: {len(TAGS)} scalars of {len(ours)} evaluations and all steps are those of metrics.jsonl")
