//! The trainable pairs A, B of every targeted layer, their moments, and their update.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::bail;
use crate::error::Result;
use crate::lora::optimizer::Moments;
use crate::lora::{GradStats, Optimizer, Targets};
use crate::shape::Shape;
use crate::tensor::{Grads, Random, Tensor};

/// What an adapter is made like.
#[derive(Debug, Clone)]
pub struct LoraConfig {
    pub rank: usize,
    pub alpha: f32,
    /// Probability of dropping an input channel of A during training.
    pub dropout: f32,
    pub targets: Targets,
    /// Decides the initial A.
    pub seed: u64,
}

impl LoraConfig {
    /// What multiplies B·A: alpha / rank.
    pub fn scale(&self) -> f32 {
        self.alpha / self.rank as f32
    }
}

/// Values of one matrix, by rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    pub rows: usize,
    pub columns: usize,
    pub values: Vec<f32>,
}

/// The two factors of one layer: `a` [rank, in], `b` [out, rank].
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub a: Matrix,
    pub b: Matrix,
}

/// Owns every trainable parameter. Layers ask it for their pair at each pass.
pub struct Adapter {
    config: LoraConfig,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By path of the layer; the order is that of updates and files.
    layers: BTreeMap<String, [Parameter; 2]>,
    /// Every linear layer that was offered, targeted or not.
    offered: Vec<String>,
    /// Pairs to start from, until their layer is offered.
    initial: BTreeMap<String, Pair>,
    updates: u64,
}

struct Parameter {
    value: Tensor,
    moments: Moments,
}

impl Parameter {
    fn new(values: Vec<f32>, shape: [usize; 2]) -> Result<Parameter> {
        Ok(Parameter {
            value: Tensor::leaf(values, shape)?,
            moments: Moments::default(),
        })
    }
}

impl Adapter {
    /// A new adapter: A uniform in ±1/√in (PEFT's Kaiming-uniform with a = √5), B zero.
    pub fn new(config: LoraConfig) -> Arc<Adapter> {
        Self::continuing(config, BTreeMap::new())
    }

    /// An adapter that starts from `pairs` instead, by path of the layer.
    pub fn continuing(config: LoraConfig, pairs: BTreeMap<String, Pair>) -> Arc<Adapter> {
        let state = State {
            initial: pairs,
            ..State::default()
        };
        Arc::new(Adapter {
            config,
            state: Mutex::new(state),
        })
    }

    pub fn config(&self) -> &LoraConfig {
        &self.config
    }

    /// Offers the linear layer `path` [outputs, inputs] while the model loads; true when it gets a pair.
    pub fn attach(&self, path: &str, outputs: usize, inputs: usize) -> Result<bool> {
        let mut state = self.lock();
        state.offered.push(path.to_owned());
        let initial = state.initial.remove(path);
        if initial.is_none() && !self.config.targets.match_path(path) {
            return Ok(false);
        }
        if state.layers.contains_key(path) {
            return Ok(true);
        }
        let rank = self.config.rank;
        if rank == 0 || rank > inputs.min(outputs) {
            bail!(
                Usage,
                "rank {rank} does not fit {path}, which is [{outputs}, {inputs}]; use a rank from 1 to {}",
                inputs.min(outputs)
            );
        }
        let (a, b) = match initial {
            Some(Pair { a, b }) => {
                let fits =
                    (a.rows, a.columns) == (rank, inputs) && (b.rows, b.columns) == (outputs, rank);
                if !fits {
                    bail!(
                        BadAdapter,
                        "{path}: the adapter's A is [{}, {}] and B [{}, {}], the layer needs [{rank}, {inputs}] and [{outputs}, {rank}]",
                        a.rows,
                        a.columns,
                        b.rows,
                        b.columns
                    );
                }
                (a.values, b.values)
            }
            None => {
                let random = Random::new(self.config.seed).named(path);
                let bound = 1.0 / (inputs as f32).sqrt();
                let value = |i: usize| (random.uniform(i as u64) * 2.0 - 1.0) * bound;
                (
                    (0..rank * inputs).map(value).collect(),
                    vec![0.0; outputs * rank],
                )
            }
        };
        let pair = [
            Parameter::new(a, [rank, inputs])?,
            Parameter::new(b, [outputs, rank])?,
        ];
        state.layers.insert(path.to_owned(), pair);
        Ok(true)
    }

    /// Call once the model is loaded: refuses names that matched nothing and pairs no layer took.
    pub fn finish(&self) -> Result<()> {
        let state = self.lock();
        if let Some(path) = state.initial.keys().next() {
            bail!(
                BadAdapter,
                "the adapter has weights for {path}, which this model does not have; it was made for another base"
            );
        }
        let continues = state
            .offered
            .iter()
            .any(|path| state.layers.contains_key(path));
        let unmatched = self.config.targets.unmatched(&state.offered);
        if !unmatched.is_empty() || !continues {
            let mut leaves: Vec<&str> = state
                .offered
                .iter()
                .filter_map(|path| path.rsplit('.').next())
                .collect();
            leaves.sort_unstable();
            leaves.dedup();
            return Err(crate::error!(
                Usage,
                "target {} matches no layer of this model",
                unmatched.join(", ")
            )
            .hint(format!(
                "layers that can be targeted: {}",
                leaves.join(", ")
            )));
        }
        Ok(())
    }

    /// A [rank, in] and B [out, rank] of the layer `path`: leaves when `recording`, plain values otherwise.
    pub fn pair(&self, path: &str, recording: bool) -> Result<(Tensor, Tensor)> {
        let state = self.lock();
        let Some([a, b]) = state.layers.get(path) else {
            bail!(Internal, "{path} has no adapter");
        };
        Ok(match recording {
            true => (a.value.clone(), b.value.clone()),
            false => (a.value.detach(), b.value.detach()),
        })
    }

    /// How many values are trained.
    pub fn parameter_count(&self) -> usize {
        let state = self.lock();
        let pairs = state.layers.values().flatten();
        pairs
            .map(|parameter| parameter.value.shape().elements())
            .sum()
    }

    /// First phase of a step: the sum of squares of all gradients.
    pub fn grad_stats(&self, grads: &Grads) -> Result<GradStats> {
        let mut stats = GradStats::default();
        for parameter in self.lock().layers.values().flatten() {
            if let Some(gradient) = grads.get(&parameter.value) {
                let squares = gradient.values()?.iter().map(|g| f64::from(*g).powi(2));
                stats.sum_of_squares += squares.sum::<f64>();
            }
        }
        Ok(stats)
    }

    /// Second phase: updates every parameter by its gradient times `scale`.
    pub fn apply(&self, optimizer: Optimizer, lr: f64, scale: f64, grads: &Grads) -> Result<()> {
        let mut state = self.lock();
        state.updates += 1;
        let update = (lr, scale, state.updates);
        for parameter in state.layers.values_mut().flatten() {
            if let Some(gradient) = grads.get(&parameter.value) {
                let mut values = parameter.value.values()?.to_vec();
                optimizer.update(
                    update,
                    &mut values,
                    gradient.values()?,
                    &mut parameter.moments,
                );
                parameter.value = Tensor::leaf(values, parameter.value.shape().clone())?;
            }
        }
        Ok(())
    }

    /// A copy of all pairs, by path.
    pub fn pairs(&self) -> Result<BTreeMap<String, Pair>> {
        let state = self.lock();
        let copy = |(path, [a, b]): (&String, &[Parameter; 2])| {
            let (a, b) = (matrix(&a.value)?, matrix(&b.value)?);
            Ok((path.clone(), Pair { a, b }))
        };
        state.layers.iter().map(copy).collect()
    }

    /// The paths of all linear layers of the model, targeted or not, once it has been loaded.
    pub fn layers(&self) -> BTreeSet<String> {
        self.lock().offered.iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn matrix(value: &Tensor) -> Result<Matrix> {
    let shape: &Shape = value.shape();
    Ok(Matrix {
        rows: shape.rows(),
        columns: shape.last(),
        values: value.values()?.to_vec(),
    })
}
