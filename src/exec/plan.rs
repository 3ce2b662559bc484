//! Peak memory by part. Every part is the size of something the code holds, or measured when the plan is made.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::backend::cpu::product;
use crate::exec::decoder::{Walk, score_bytes, trained_bytes};
use crate::exec::{Placement, Residence};
use crate::format::Checkpoint;
use crate::format::digest::HASHING_BYTES;
use crate::lora::{LoraConfig, PANEL_BYTES, Site, layer_of};
use crate::models::DecoderSpec;
use crate::nn::Source;
use crate::ops::slice_rows;
use crate::tensor::Activations;

/// What a thread touches of its stack.
const THREAD_BYTES: usize = 128 << 10;
/// Of what comes and goes, the share that the C library may keep between blocks: it returns memory only from the end of its
/// heap and in whole mappings. The one number here that is no size of ours; the grid of `tests/memory.rs` watches it.
const ALLOCATOR_SHARE: usize = 4;
/// Tokens that a text written to watch the model learn keeps in its cache.
const WRITTEN_TOKENS: usize = 80;

/// What a run computes, as far as its memory depends on it.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    pub spec: &'a DecoderSpec,
    pub source: &'a dyn Source,
    /// Every layer that could have an adapter.
    pub sites: &'a [Site],
    pub lora: &'a LoraConfig,
    pub vocab: usize,
    /// The head is the embedding table.
    pub tied: bool,
    /// The most tokens that are computed together in training.
    pub tokens: usize,
    /// Tokens of the longest held-out sample; 0 without.
    pub eval_tokens: usize,
    /// Whether a step adds up several micro-batches.
    pub accumulates: bool,
    pub activations: Activations,
    pub placement: Placement,
    /// Rows of the vocabulary whose logits are in memory at a time, when that is asked for.
    pub vocab_slice: Option<usize>,
    /// Values the optimizer keeps for each that is trained.
    pub moments: usize,
}

/// What else lies in memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct Measured {
    /// Resident before the run, and what it grows by beside it: Node.js, this library, the caller's own.
    pub program: usize,
    /// What tokenizer and samples added to it.
    pub data: usize,
    /// The highest that was resident so far.
    pub peak: usize,
}

/// Where the run computes.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    pub threads: usize,
}

/// Bytes by part. Activations, logits and saving are never alive at once: `total` has the largest moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryPlan {
    /// Pages of the model's files that are in memory at once: all of them, which the system may drop and read again, or
    /// with `--stream-layers` those of the largest part.
    pub base_mapped: usize,
    /// Norms and biases in f32.
    pub base_resident: usize,
    /// The stream before each layer that is walked back and the graph of one layer, or the graphs of all.
    pub activations: usize,
    /// The last norm, a slice of the vocabulary, and the gradient it leaves.
    pub logits: usize,
    pub adapter: usize,
    pub gradients: usize,
    pub optimizer: usize,
    /// Unpacked and packed blocks of matrices, attention scores, stacks.
    pub workspace: usize,
    /// Freed blocks that the C library keeps between those in use.
    pub allocator: usize,
    /// Tokenizer and samples, measured.
    pub data: usize,
    /// Copies of the adapter while its files are written.
    pub saving: usize,
    /// What was resident before the run, measured.
    pub program: usize,
    /// The most that is resident at once.
    pub total: usize,
    /// What of the total must stay for the run to work: of the mapped files only twice the largest part used at once.
    pub required: usize,
}

impl MemoryPlan {
    pub fn of(work: &Work, checkpoint: &Checkpoint, measured: Measured, machine: Machine) -> Self {
        let spec = work.spec;
        let stream = |tokens: usize| tokens * spec.width * 4;
        let trained = trained_bytes(work);
        let adapter: usize = trained.iter().sum();
        let layers = spec.layers.len();
        let embedding_learns = work.lora.targets_path("model.embed_tokens");
        let first = match embedding_learns {
            true => 0,
            false => (0..layers).find(|&l| trained[l] > 0).unwrap_or(layers),
        };
        let together = work.placement.together.min(layers);
        let units = first / together..layers.div_ceil(together);
        let layers_of = |unit: usize| unit * together..((unit + 1) * together).min(layers);
        // Backward goes down: at unit u the streams before the units from the first to u are there, and that after u; and
        // the gradients of the layers above, or of all when a micro-batch went before.
        let at_unit = |unit: usize| {
            let gradients: usize = match work.accumulates {
                true => adapter,
                false => trained[layers_of(unit).end..].iter().sum(),
            };
            let streams = stream(work.tokens) * (unit + 2 - units.start);
            streams + gradients + Walk::new(work).unit(layers_of(unit))
        };
        let before = if work.accumulates { adapter } else { 0 };
        let (backward, streams) = match work.activations {
            Activations::Replayed => {
                let unit = units.clone().map(at_unit).max();
                (unit.unwrap_or(0), stream(work.tokens) * (units.len() + 1))
            }
            Activations::Kept => (before + Walk::new(work).whole(first), 0),
        };
        let head = streams + before + Walk::new(work).head();
        let evaluation = match work.eval_tokens {
            0 => 0,
            tokens => {
                let held_out = Work { tokens, ..*work };
                let layer = (0..layers).map(|layer| Walk::new(&held_out).unit(layer..layer + 1));
                layer.max().unwrap_or(0).max(Walk::new(&held_out).head()) + 2 * stream(tokens)
            }
        };
        let cache = 2 * layers * WRITTEN_TOKENS * spec.kv_heads * spec.head_dim * 4;
        // The cache twice while it grows; the logits of one token, and their order.
        let writing = 2 * cache + 4 * work.vocab * 4;
        // The values, and those of a file in its order.
        let saving = 2 * adapter;
        let largest = |moments: &[usize]| moments.iter().copied().max().unwrap_or(0);
        let passes = largest(&[backward, head, evaluation, writing]);
        let between = largest(&[adapter + largest(&trained), saving]);
        let moment = passes.max(between);

        let optimizer = adapter * work.moments;
        let (base_mapped, base_resident, stays) = base(checkpoint, work.placement);
        // Files are hashed beside the first steps; one of a few buffers is done before those.
        let hashing = match checkpoint.bytes() > HASHING_BYTES {
            true => HASHING_BYTES,
            false => 0,
        };
        // Streamed pages are there in passes alone.
        let with_pages = |pages: usize| match work.placement.residence {
            Residence::Mapped => moment + pages,
            Residence::Streamed => (passes + pages).max(between),
        };
        let workspace = workspace(work, machine) + hashing;
        let Measured {
            program,
            data,
            peak,
        } = measured;
        let allocator = (moment + data) / ALLOCATOR_SHARE;
        let fixed = base_resident + adapter + optimizer + workspace + allocator + data + program;
        MemoryPlan {
            base_mapped,
            base_resident,
            activations: backward.saturating_sub(adapter),
            logits: head.saturating_sub(before),
            adapter,
            gradients: adapter,
            optimizer,
            workspace,
            allocator,
            data,
            saving,
            program,
            total: (fixed + with_pages(base_mapped)).max(peak),
            required: fixed + with_pages(stays),
        }
    }
}

fn workspace(work: &Work, machine: Machine) -> usize {
    let spec = work.spec;
    let tokens = work.tokens.max(work.eval_tokens);
    let merged = if work.lora.dora { 2 * PANEL_BYTES } else { 0 };
    let widest = spec
        .mlp_hidden
        .max(spec.width)
        .max(spec.heads * spec.head_dim);
    let fused = if spec.fused { 2 } else { 1 };
    let slice = slice_rows(work.vocab_slice, tokens).min(work.vocab);
    let largest = (fused * widest).max(slice) * spec.width;
    let laid_out = product::bytes(tokens, widest, largest, machine.threads);
    merged + laid_out + machine.threads * (THREAD_BYTES + score_bytes(tokens))
}

/// Bytes of the files that are in memory at once, of what is kept of them in f32, and twice the largest part that is used
/// at once: a layer runs three times in a row while the next is read, and so does the head.
fn base(checkpoint: &Checkpoint, placement: Placement) -> (usize, usize, usize) {
    let catalog = checkpoint.catalog();
    let mapped = checkpoint.bytes();
    let (mut resident, mut tensors) = (0, 0);
    let mut parts = BTreeMap::<String, usize>::new();
    for tensor in catalog.tensors() {
        if tensor.shape.len() == 1 {
            resident += tensor.shape.elements() * 4;
        }
        let place = match block_of(&tensor.name) {
            Some(layer) => (layer / placement.together).to_string(),
            None => tensor.name.clone(),
        };
        let bytes = tensor.bytes().unwrap_or(0);
        tensors += bytes;
        *parts.entry(place).or_default() += bytes;
    }
    let largest = parts.into_values().max().unwrap_or(0);
    let stays = mapped.min(2 * largest);
    match placement.residence {
        Residence::Mapped => (mapped, resident, stays),
        // The rest of the files is what describes the tensors.
        Residence::Streamed => {
            let mapped = mapped - tensors + largest;
            (mapped, resident, mapped)
        }
    }
}

/// The layer a tensor belongs to, in the names of either kind of file.
fn block_of(name: &str) -> Option<usize> {
    match name.strip_prefix("blk.") {
        Some(rest) => rest.split('.').next()?.parse().ok(),
        None => layer_of(name),
    }
}
